#include <boost/test/unit_test.hpp>
#include <filesystem>

#include "tests/support/small_manifest.h"
#include "tests/support/troupe_program.h"

// Tests what a manifest for a GPU gets on a machine without one.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(gpu_keys_test)

namespace {

/// Whether this machine has a driver, with which the tests below would train.
bool has_driver() {
  const Finished devices = troupe({"devices"});
  BOOST_REQUIRE_MESSAGE(devices.exit_code == 0, devices.err);
  const std::string fault = nlohmann::json::parse(devices.out).at("fault");
  return fault.find("no NVIDIA driver") == std::string::npos;
}

void check_says(const std::string& text, const std::vector<std::string>& words) {
  for (const std::string& word : words)
    BOOST_TEST(text.find(word) != std::string::npos, "no '" << word << "' in: " << text);
}

}  // namespace

BOOST_AUTO_TEST_CASE(no_driver_is_told_before_anything_starts) {
  if (has_driver()) return;
  const Workplace place;
  const Finished launch =
      troupe({"launch", place.manifest("gpu", {{"cluster.device", "\"cuda\""}})});
  BOOST_TEST(launch.exit_code == 69);
  check_says(launch.err, {"gpu.toml:", "cluster.device", "no NVIDIA driver"});
  BOOST_TEST(launch.out == "");
  BOOST_TEST(!std::filesystem::exists(place.run("gpu")));
}

BOOST_AUTO_TEST_CASE(a_run_on_a_gpu_is_planned_without_one) {
  if (has_driver()) return;
  const Workplace place;
  const std::string manifest =
      place.manifest("gpu", {{"cluster.device", "\"cuda\""}, {"cluster.matmul", "\"tf32\""}});
  const Finished plan = troupe({"plan", manifest});
  BOOST_TEST(plan.exit_code == 0, plan.err);
  check_says(plan.out, {"workspace", "context", "of GPUs", "none to compare with: no NVIDIA"});
  const Finished json = troupe({"plan", manifest, "--json"});
  const auto rank = nlohmann::json::parse(json.out).at("ranks").at(0);
  BOOST_TEST(rank.at("device_bytes").get<std::int64_t>() >
             rank.at("estimated_bytes").at("context").get<std::int64_t>());
}

BOOST_AUTO_TEST_CASE(what_no_device_can_do_is_refused) {
  const Workplace place;
  const auto refused = [&](const Keys& keys, const std::vector<std::string>& words) {
    const Finished plan = troupe({"plan", place.manifest("bad", keys)});
    BOOST_TEST(plan.exit_code == 78, plan.err);
    check_says(plan.err, words);
  };
  refused({{"cluster.device", "\"tpu\""}}, {"cluster.device", "'cpu'", "'cuda'"});
  refused({{"cluster.matmul", "\"tf32\""}}, {"cluster.matmul", "cuda"});
  refused({{"cluster.deterministic", "false"}}, {"cluster.deterministic", "cuda"});
  refused({{"cluster.device", "\"cuda\""}, {"cluster.edges", "\"nvlink\""}},
          {"cluster.edges", "'auto'", "'peer'", "'staged'"});
  refused({{"cluster.edges", "\"peer\""}}, {"cluster.edges", "cuda"});
}

BOOST_AUTO_TEST_CASE(edges_of_ranks_on_gpus_are_planned) {
  const Workplace place;
  const auto planned = [&](const std::string& kind) {
    const Finished plan = troupe({"plan",
                                  place.manifest(kind, {{"cluster.device", "\"cuda\""},
                                                        {"mesh.pp", "2"},
                                                        {"cluster.edges", '"' + kind + '"'}}),
                                  "--json"});
    BOOST_REQUIRE_MESSAGE(plan.exit_code == 0, plan.err);
    return nlohmann::json::parse(plan.out).at("ranks");
  };
  const auto peer = planned("peer"), staged = planned("staged"), automatic = planned("auto");
  BOOST_TEST(peer.at(0).at("edges").dump() == R"({"1":"peer"})");
  BOOST_TEST(staged.at(1).at("edges").dump() == R"({"0":"staged"})");
  BOOST_TEST(automatic.at(0).at("edges") == peer.at(0).at("edges"));
  const auto pools = [](const nlohmann::json& ranks) {
    return ranks.at(0).at("memory_bytes").at("pools").get<std::int64_t>();
  };
  BOOST_TEST(pools(staged) > pools(peer));
  BOOST_TEST(peer.at(0).at("device_bytes") == staged.at(0).at("device_bytes"));
}

BOOST_AUTO_TEST_CASE(doctor_tells_of_gpus_and_needs_none) {
  const Finished doctor = troupe({"doctor"});
  BOOST_TEST(doctor.exit_code == 0, doctor.out);
  check_says(doctor.out, {"gpu"});
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
