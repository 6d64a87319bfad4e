#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

#include "tests/hosts/hosts_runs.h"

// Tests runs two of whose hosts do not reach each other any more, though everybody else reaches
// them.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(partition_test)

namespace {

/// The causes that a run's events of a kind have.
std::vector<std::string> causes_of(const std::string& run_dir, const std::string& kind) {
  std::vector<std::string> causes;
  std::ifstream file(run_dir + "/events.jsonl");
  for (std::string line; std::getline(file, line);)
    if (const auto event = nlohmann::json::parse(line, nullptr, false);
        !event.is_discarded() && event.value("kind", "") == kind)
      causes.push_back(event.value("cause", ""));
  return causes;
}

/// A run of many steps on hosts of one rank each.
class LongRun {
 public:
  LongRun(int num_hosts, Keys keys) : lab(num_hosts) {
    lab.start_ssh();
    std::string hosts;
    for (int host = 0; host < num_hosts; ++host) hosts += "h" + std::to_string(host) + ":1\n";
    keys["run.max_steps"] = "100000";
    program.emplace(lab, 0, launch_on_hosts(place, place.manifest("run", on_hosts(keys)), hosts));
    BOOST_REQUIRE(program->read_until("step 5/"));
  }
  std::string dir() const { return place.run("run"); }
  /// Goes on for some steps, ends the run, and compares its losses with those of one process.
  void end_and_compare() {
    read_new_steps(*program, dir(), 5);
    const Finished stop = lab.run(0, {binary_on_hosts(), "stop", dir()});
    BOOST_TEST(stop.exit_code == 0, stop.err);
    BOOST_TEST(program->finish().exit_code == 0);
    const auto numbers = step_numbers(dir());
    const int steps = std::min(100, numbers.rbegin()->first);
    BOOST_TEST((until_step(steps, numbers) ==
                alone(place, "alone", {{"run.max_steps", std::to_string(steps)}})));
  }

  Workplace place;
  Lab lab;
  std::optional<HostProgram> program;
};

}  // namespace

BOOST_AUTO_TEST_CASE(one_of_two_hosts_goes_and_a_spare_one_takes_its_ranks) {
  LongRun run(4, {{"mesh.pp", "3"}, {"recovery.spare_hosts", "1"}});
  run.lab.drop(1, 2);
  wait_for_event(run.dir(), "recovered", {{"from", "memory"}});
  BOOST_TEST(num_events(run.dir(), "host", {{"state", "lost"}}) == 1u);
  const auto causes = causes_of(run.dir(), "failure");
  BOOST_TEST_REQUIRE(causes.size() == 1u);
  for (const std::string word : {"host h2", "h1", "do not reach each other", "10.88.0.1"})
    BOOST_TEST(causes[0].find(word) != std::string::npos, word << " in " << causes[0]);
  run.lab.undrop();
  run.end_and_compare();
}

BOOST_AUTO_TEST_CASE(the_host_that_went_takes_part_again_when_it_reaches_the_others) {
  LongRun run(3, {{"mesh.pp", "3"}});
  run.lab.drop(1, 2);
  wait_for_event(run.dir(), "recovered", {{"from", "memory"}});
  const auto waits = [&] {
    return std::ranges::any_of(causes_of(run.dir(), "note"), [](const std::string& text) {
      return text.find("host h2 has come, and waits") != std::string::npos;
    });
  };
  while (!waits()) read_new_steps(*run.program, run.dir(), 1);
  BOOST_TEST(num_events(run.dir(), "host", {{"host", "h2"}, {"state", "spare"}}) == 0u);
  read_new_steps(*run.program, run.dir(), 5);
  run.lab.undrop();
  wait_for_event(run.dir(), "host", {{"host", "h2"}, {"state", "spare"}});
  wait_for_event(run.dir(), "rescaled");
  run.end_and_compare();
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
