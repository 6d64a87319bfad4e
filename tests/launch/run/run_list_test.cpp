#include "launch/run/run_list.h"

#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <filesystem>

#include "launch/run/outcome.h"
#include "launch/run/run_directory.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_dir.h"

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(run_list_test)

namespace {

namespace fs = std::filesystem;

/// Writes the files of a run that changed at this time, the older the smaller.
void write_run(const TempDir& dir, const std::string& name, int time) {
  fs::create_directories(dir / name);
  dir.write(name + "/manifest.toml", "[run]\nname = \"the " + name + "\"\nmax_steps = 40\n");
  dir.write(
      name + "/metrics.jsonl",
      "{\"step\":1,\"loss\":3}\n{\"step\":2,\"loss\":2.5}\n{\"step\":2,\"eval_loss\":9}\n{\"st");
  for (const char* file : {"/manifest.toml", "/metrics.jsonl"})
    fs::last_write_time(dir / (name + file),
                        fs::file_time_type::clock::now() - std::chrono::hours(100 - time));
}

}  // namespace

BOOST_AUTO_TEST_CASE(runs_are_found_below_and_the_newest_is_first) {
  const TempDir dir;
  write_run(dir, "old", 1);
  write_run(dir, "group/live", 3);
  write_run(dir, "ended", 2);
  write_run(dir, "old/logs/inner", 9);  // inside a run
  write_run(dir, ".hidden/run", 9);
  dir.write(
      "ended/outcome.json",
      launch::to_json(launch::ending_now({.exit_code = 0, .step = 2, .reason = "finished"}, ""))
          .dump());
  for (const char* folder : {"ended/checkpoints/step-2", "broken"})
    fs::create_directories(dir / folder);
  dir.write("ended/checkpoints/step-2/state.json", "{}");
  dir.write("broken/manifest.toml", "nonsense");
  fs::last_write_time(dir / "broken/manifest.toml",
                      fs::file_time_type::clock::now() - std::chrono::hours(1000));
  const auto live = launch::RunDirectory::reopen(dir / "group/live");
  const auto runs = launch::list_runs(dir.path());
  std::vector<std::string> states, names;
  for (const auto& run : runs) {
    states.push_back(run.state);
    names.push_back(run.name);
  }
  BOOST_TEST((states == std::vector<std::string>{"running", "ended", "killed", "unreadable"}));
  BOOST_TEST(
      (names == std::vector<std::string>{"the group/live", "the ended", "the old", "broken"}));
  BOOST_TEST(runs[1].step == 2);
  BOOST_TEST(runs[1].max_steps == 40);
  BOOST_TEST(runs[1].loss.value() == 2.5);
  BOOST_TEST(runs[1].reason == "finished");
  BOOST_TEST(runs[1].checkpoint == (dir / "ended/checkpoints/step-2").string());
  // A run itself is a list of one.
  BOOST_TEST(launch::list_runs(dir / "ended").size() == 1u);
}

BOOST_AUTO_TEST_CASE(a_directory_that_is_not_there_is_named) {
  const TempDir dir;
  BOOST_TEST(launch::list_runs(dir.path()).empty());
  expect_error(ErrorKind::data, {"nowhere", "No such file"},
               [&] { launch::list_runs(dir / "nowhere"); });
}

BOOST_AUTO_TEST_CASE(a_folder_that_may_not_be_read_is_listed_because_it_may_hold_a_run) {
  const TempDir dir;
  write_run(dir, "open", 1);
  write_run(dir, "closed/run", 2);
  fs::permissions(dir.path(), fs::perms(0755));
  fs::permissions(dir / "closed", fs::perms::none);
  const uid_t self = geteuid();
  BOOST_REQUIRE(self != 0 || seteuid(65534) == 0);
  const auto runs = launch::list_runs(dir.path());
  BOOST_REQUIRE(seteuid(self) == 0);
  fs::permissions(dir / "closed", fs::perms(0755));
  BOOST_REQUIRE(runs.size() == 2u);
  BOOST_TEST(runs[0].directory == dir / "closed");
  BOOST_TEST(runs[0].state == "unreadable");
  BOOST_TEST(runs[1].name == "the open");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
