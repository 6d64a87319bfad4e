#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>

#include "tests/support/trained_run.h"

// mesh.auto with real processes: a run takes the layout that a search lists first, and keeps it.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(auto_mesh_test)

namespace {

using nlohmann::json;

json planned(std::vector<std::string> words) {
  words.insert(words.begin(), "plan");
  words.push_back("--json");
  const Finished plan = troupe(words);
  BOOST_REQUIRE_MESSAGE(plan.exit_code == 0, plan.err);
  return json::parse(plan.out);
}

/// A description of hosts with two devices.
std::string machine(const Workplace& place) {
  return place.dir.write("two.machine.toml", "[machine]\nbase = \"l40s\"\n[host]\ndevices = 2\n");
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_run_takes_the_best_layout_and_keeps_it) {
  const Workplace place;
  const std::string two = machine(place);
  const std::string manifest =
      place.manifest("found", {{"mesh.auto", "true"}, {"data_parallel.sharding", "\"optim\""}});
  const json best =
      planned({manifest, "--machine", two, "--search"}).at("search").at("layouts").at(0);
  const Finished done = troupe({"launch", manifest, "--machine", two, "--devices", "2"});
  BOOST_REQUIRE_MESSAGE(done.exit_code == 0, done.err);
  const std::string saved = place.run("found") + "/manifest.toml";
  const auto mesh_of = [](const json& plan) { return plan.at("manifest").at("mesh"); };
  const json mesh = mesh_of(planned({saved}));
  BOOST_TEST(mesh.at("auto") == false);
  for (const auto& [key, value] : best.at("mesh").items()) BOOST_TEST(mesh.at(key) == value, key);
  BOOST_TEST(workers_of(place.run("found")).empty());

  // A resumed run looks for nothing.
  const Finished resumed =
      troupe({"launch", "--resume", place.run("found"), "--set", "run.max_steps=8"});
  BOOST_REQUIRE_MESSAGE(resumed.exit_code == 0, resumed.err);
  BOOST_TEST(mesh_of(planned({saved})) == mesh);
  // It computes what a run does that was given this layout.
  Keys keys{{"run.max_steps", "8"}, {"mesh.auto", ""}};
  for (const char* table : {"mesh", "schedule", "recompute", "data_parallel"})
    for (const auto& [key, value] : best.at(table).items())
      keys[std::string(table) + "." + key] = value.dump();
  BOOST_TEST(distance(step_numbers(place.run("found")), trained(place, "given", keys)) == 0);
}

BOOST_AUTO_TEST_CASE(the_devices_at_hand_are_those_of_hosts_or_of_the_machine) {
  const Workplace place;
  const std::string two = machine(place);
  const std::string manifest =
      place.manifest("found", {{"mesh.auto", "true"}, {"batch.global", "32"}});
  const auto devices = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words{manifest, "--machine", two};
    words.insert(words.end(), more.begin(), more.end());
    return planned(words).at("predicted").at("devices").get<int>();
  };
  BOOST_TEST(devices({}) == 2);
  BOOST_TEST(devices({"--devices", "4"}) == 4);
  BOOST_TEST(devices({"--set", "cluster.hosts=[\"a:2\", \"b:2\"]"}) == 4);
  BOOST_TEST(devices({"--set", "cluster.hosts=[\"a:2\", \"b:2\"]", "--set",
                      "recovery.spare_hosts=1"}) == 2);
}

BOOST_AUTO_TEST_CASE(what_cannot_be_found_is_told_with_its_place) {
  const Workplace place;
  const std::string two = machine(place);
  const auto refused = [&](const Keys& keys, const std::vector<std::string>& more,
                           const std::vector<std::string>& words) {
    std::vector<std::string> command{"launch",
                                     place.manifest("none", with({{"mesh.auto", "true"}}, keys))};
    command.insert(command.end(), more.begin(), more.end());
    const Finished done = troupe(command);
    BOOST_TEST(done.exit_code != 0);
    for (const std::string& word : words)
      BOOST_TEST(done.err.find(word) != std::string::npos, word << " is not in " << done.err);
  };
  refused({{"mesh.pp", "2"}}, {"--machine", two},
          {"none.toml:", "mesh.pp = 2", "mesh.auto = true"});
  // 6 layers, 16 samples and 4 heads divide by no 7.
  refused({}, {"--machine", two, "--devices", "7"}, {"none.toml:", "no layout of 7 devices"});
  if (!on_async_device()) refused({}, {"--devices", "2"}, {"none.toml:", "troupe measure -o FILE"});
  refused({{"mesh.auto", ""}}, {"--machine", two}, {"--machine", "--devices", "mesh.auto"});
  BOOST_TEST(!std::filesystem::exists(place.run("none")));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
