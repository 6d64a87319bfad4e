#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/support/small_manifest.h"
#include "tests/support/troupe_program.h"

// Tests a full disk: no file of the launching process may grow, and later they may grow again.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(full_disk_test)

namespace {

namespace fs = std::filesystem;

const Keys kKeys{{"mesh.pp", "2"}, {"run.max_steps", "1000000"}};

void limit_files(const TroupeProgram& program, rlim_t bytes) {
  const rlimit limit{.rlim_cur = bytes, .rlim_max = RLIM_INFINITY};
  BOOST_REQUIRE(prlimit(program.pid(), RLIMIT_FSIZE, &limit, nullptr) == 0);
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_run_goes_on_while_the_disk_is_full_and_loses_no_line) {
  const Workplace place;
  const std::string run = place.run("full");
  Keys saving = kKeys;
  saving["checkpoint.interval"] = "5";
  TroupeProgram program({"launch", place.manifest("full", saving)});
  BOOST_REQUIRE(program.read_until("step 7/"));
  limit_files(program, 0);
  // Either a line or a checkpoint is due first.
  for (const char* trouble : {"the run goes on and keeps the lines", "could not be saved"})
    if (program.shown().find(trouble) == std::string::npos)
      BOOST_REQUIRE(program.read_until(trouble));
  const Finished sick = troupe({"status", run, "--diagnose"});
  BOOST_TEST(sick.exit_code == 1);
  BOOST_TEST(sick.out.find("metrics.jsonl: File too large") != std::string::npos, sick.out);
  BOOST_TEST(sick.out.find("could not be saved") != std::string::npos, sick.out);
  const Finished scaled = troupe({"scale", run, "--schedule", "gpipe"});
  BOOST_TEST(scaled.exit_code == 0, scaled.err);

  limit_files(program, RLIM_INFINITY);
  BOOST_REQUIRE(program.read_until("metrics.jsonl is written again"));
  BOOST_TEST(troupe({"stop", run}).exit_code == 0);
  const Finished done = program.finish();
  BOOST_TEST(done.exit_code == 0, done.err);
  const auto steps = step_numbers(run);
  const int last = steps.rbegin()->first;
  BOOST_TEST(std::ssize(steps) == last);
  BOOST_TEST(fs::exists(place.checkpoint("full", last) + "/state.json"));
  Keys undisturbed = kKeys;
  undisturbed["run.max_steps"] = std::to_string(std::min(last, 200));
  troupe({"launch", place.manifest("undisturbed", undisturbed)});
  BOOST_TEST((until_step(200, steps) == step_numbers(place.run("undisturbed"))));
}

BOOST_AUTO_TEST_CASE(a_run_that_ends_on_a_full_disk_says_what_it_could_not_write) {
  const Workplace place;
  const std::string run = place.run("full");
  TroupeProgram program({"launch", place.manifest("full", kKeys)});
  BOOST_REQUIRE(program.read_until("step 3/"));
  limit_files(program, 1000);  // room for its last lines
  BOOST_REQUIRE(program.read_until("the run goes on and keeps the lines"));
  const Finished stopped = troupe({"stop", run});
  BOOST_TEST(stopped.out.find("but the last step could not be saved") != std::string::npos,
             stopped.out + stopped.err);
  const Finished done = program.finish();
  BOOST_TEST(done.exit_code == 70);
  for (const char* what : {"metrics.jsonl: File too large", "could not be saved: "})
    BOOST_TEST(done.err.find(what) != std::string::npos, what << " is not in\n" << done.err);
  BOOST_TEST(content_of(run + "/checkpoints/newest") == "none\n");
  BOOST_TEST(std::distance(fs::directory_iterator(run + "/checkpoints"), {}) == 1);
}

BOOST_AUTO_TEST_CASE(a_run_that_ends_waits_for_a_disk_that_is_full_for_a_second) {
  const Workplace place;
  TroupeProgram program({"launch", place.manifest("full", kKeys)});
  BOOST_REQUIRE(program.read_until("step 3/"));
  limit_files(program, 0);
  program.signal(SIGTERM);
  BOOST_REQUIRE(program.read_until("tried again in 1 s"));
  limit_files(program, RLIM_INFINITY);
  const Finished done = program.finish();
  BOOST_TEST(done.exit_code == 0, done.err);
  const int last = step_numbers(place.run("full")).rbegin()->first;
  BOOST_TEST(fs::exists(place.checkpoint("full", last) + "/state.json"));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
