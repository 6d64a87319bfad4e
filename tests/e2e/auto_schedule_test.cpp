#include <signal.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>

#include "tests/support/small_manifest.h"
#include "tests/support/troupe_program.h"

// Tests schedule.kind = "auto" with real processes: it measures, changes the schedule once, and
// changes no number.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(auto_schedule_test)

namespace {

const Keys kAuto{{"mesh.pp", "2"}, {"schedule.kind", "\"auto\""}, {"run.max_steps", "160"}};

std::map<int, StepNumbers> undisturbed(const Workplace& place, const std::string& steps) {
  const Finished done =
      troupe({"launch", place.manifest("undisturbed", {{"run.max_steps", steps}})});
  BOOST_REQUIRE_MESSAGE(done.exit_code == 0, done.err);
  return step_numbers(place.run("undisturbed"));
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_run_chooses_its_schedule_and_says_what_it_won) {
  const Workplace place;
  const auto want = undisturbed(place, "160");
  for (const char* dp : {"1", "2"}) {
    const std::string name = std::string("auto") + dp;
    Keys keys = kAuto;
    keys["mesh.dp"] = dp;
    const Finished done = troupe({"launch", place.manifest(name, keys)});
    BOOST_REQUIRE_MESSAGE(done.exit_code == 0, done.err);
    BOOST_TEST(done.out.find("predicted gain") != std::string::npos, done.out);
    BOOST_TEST(done.out.find("measured gain") != std::string::npos, done.out);
    if (keys["mesh.dp"] == "1") BOOST_TEST((step_numbers(place.run(name)) == want));
    // A run that is resumed keeps the schedule that was chosen.
    const std::string manifest = content_of(place.run(name) + "/manifest.toml");
    BOOST_TEST(manifest.find("kind = \"auto\"") == std::string::npos, manifest);
    // The manifest also holds the measured costs, whatever the schedule.
    BOOST_TEST(manifest.find("costs = \"F=") != std::string::npos, manifest);
  }
}

BOOST_AUTO_TEST_CASE(a_loss_while_it_measures_or_changes_costs_nothing_but_time) {
  const Workplace place;
  const std::string run = place.run("run");
  Keys keys = kAuto;
  keys["run.max_steps"] = "1000000";
  TroupeProgram program({"launch", place.manifest("run", keys)});
  BOOST_REQUIRE(program.read_until("step 2/"));
  kill(workers_of(run).at(1), SIGKILL);
  // The line is "recovered at step N", or "changed at step N: ..., and recovered: ..." if the loss
  // came so late that the new schedule was ordered already.
  BOOST_REQUIRE(program.read_until("recovered"));
  if (program.shown().find("predicted gain") == std::string::npos)
    BOOST_REQUIRE(program.read_until("predicted gain"));
  BOOST_TEST(troupe({"stop", run}).exit_code == 0);
  BOOST_TEST(program.finish().exit_code == 0);
  const auto got = step_numbers(run);
  const int last = std::min(got.rbegin()->first, 200);
  BOOST_TEST((until_step(last, got) == undisturbed(place, std::to_string(last))));
}

BOOST_AUTO_TEST_CASE(a_running_run_can_be_told_to_choose) {
  const Workplace place;
  const std::string run = place.run("run");
  TroupeProgram program(
      {"launch", place.manifest("run", {{"mesh.pp", "2"}, {"run.max_steps", "1000000"}})});
  BOOST_REQUIRE(program.read_until("step 3/"));
  const Finished told = troupe({"scale", run, "--schedule", "auto"});
  BOOST_TEST(told.exit_code == 0, told.err);
  BOOST_TEST(program.read_until("measured gain"));
  BOOST_TEST(troupe({"stop", run}).exit_code == 0);
  program.finish();
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
