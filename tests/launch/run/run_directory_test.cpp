#include "launch/run/run_directory.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>

#include "launch/control/control_client.h"
#include "launch/manifest/toml/manifest.h"
#include "launch/run/outcome.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_dir.h"

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(run_directory_test)

using launch::RunDirectory;

namespace {

/// Lets this process read only what other users may read, where it is root's.
class WithoutPrivilege {
 public:
  WithoutPrivilege() { BOOST_REQUIRE(before_ != 0 || seteuid(65534) == 0); }
  ~WithoutPrivilege() { BOOST_REQUIRE(seteuid(before_) == 0); }
  WithoutPrivilege(const WithoutPrivilege&) = delete;

 private:
  const uid_t before_ = geteuid();
};

void refuse_reading(const std::filesystem::path& path) {
  std::filesystem::permissions(path, std::filesystem::perms::none);
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_directory_with_anything_in_it_is_not_taken) {
  const TempDir dir;
  const auto run = dir / "runs/first";
  RunDirectory::check_free(run);
  std::filesystem::create_directories(run);
  RunDirectory::check_free(run);  // empty
  dir.write("runs/first/notes.txt", "mine");
  expect_error(ErrorKind::manifest, {run.string(), "not empty"},
               [&] { RunDirectory::create(run); });
  dir.write("runs/first/manifest.toml", "");
  expect_error(ErrorKind::manifest, {run.string(), "--resume"}, [&] { RunDirectory::create(run); });
  BOOST_TEST(content_of(run / "notes.txt") == "mine");
  const std::string file = dir.write("file", "");
  expect_error(ErrorKind::manifest, {file}, [&] { RunDirectory::create(file); });
  expect_error(ErrorKind::manifest, {file}, [&] { RunDirectory::create(file + "/below"); });
}

BOOST_AUTO_TEST_CASE(one_launcher_at_a_time_owns_a_run) {
  const TempDir dir;
  const auto run = dir / "run";
  {
    const RunDirectory mine = RunDirectory::create(run);
    mine.write(launch::kManifestFile, "[run]\nname = \"r\"\n");
    BOOST_TEST(launch::has_launcher(run));
    expect_error(ErrorKind::manifest, {run.string(), "in use"}, [&] { RunDirectory::reopen(run); });
    // Asking does not take the lock from its owner.
    BOOST_TEST(launch::has_launcher(run));
  }
  BOOST_TEST(!launch::has_launcher(run));
  const RunDirectory again = RunDirectory::reopen(run);
  BOOST_TEST(launch::has_launcher(run));
}

BOOST_AUTO_TEST_CASE(each_launcher_has_a_higher_term_than_those_before) {
  const TempDir dir;
  const auto run = dir / "run";
  for (const std::int64_t term : {1, 2, 3}) {
    const RunDirectory mine = term == 1 ? RunDirectory::create(run) : RunDirectory::reopen(run);
    mine.write(launch::kManifestFile, "[run]\nname = \"r\"\n");
    BOOST_TEST(mine.term().number == term);
    BOOST_TEST(launch::newest_term(run).number == term);
    BOOST_TEST(launch::newest_term(run).pid == getpid());
    BOOST_TEST(!mine.lost());
  }
}

BOOST_AUTO_TEST_CASE(a_run_is_taken_over_from_a_launcher_that_holds_its_lock) {
  const TempDir dir;
  const auto run = dir / "run";
  const RunDirectory old = RunDirectory::create(run);
  old.write(launch::kManifestFile, "[run]\nname = \"r\"\n");
  const RunDirectory now = RunDirectory::take_over(run);
  BOOST_TEST(now.term().number == 2);
  BOOST_TEST(!now.lost());
  BOOST_REQUIRE(old.lost().has_value());
  BOOST_TEST(static_cast<int>(old.lost()->kind) == 75);
  BOOST_TEST(old.lost()->text.find("term 2), so this one, of term 1, ends") != std::string::npos,
             old.lost()->text);
  expect_error(ErrorKind::data, {run.string()}, [&] { old.write("outcome.json", "1"); });
  now.write("outcome.json", "2");
  BOOST_TEST(content_of(run / "outcome.json") == "2");
  // The new one holds the lock that others see.
  expect_error(ErrorKind::manifest, {"in use"}, [&] { RunDirectory::reopen(run); });
}

BOOST_AUTO_TEST_CASE(of_two_that_take_over_at_once_one_gets_the_run) {
  const TempDir dir;
  const auto run = dir / "run";
  const RunDirectory old = RunDirectory::create(run);
  old.write(launch::kManifestFile, "[run]\nname = \"r\"\n");
  const std::string other = dir.write("run/lock.2", "of another launcher");
  {
    const int fd = open(other.c_str(), O_RDWR | O_CLOEXEC);
    auto lock = launch::whole_file();
    BOOST_REQUIRE(fcntl(fd, F_OFD_SETLK, &lock) == 0);
    expect_error(ErrorKind::retry, {run.string()}, [&] { RunDirectory::take_over(run); });
    close(fd);
  }
  BOOST_TEST(!old.lost());
  // It has died on the way: nobody holds what it left.
  const RunDirectory now = RunDirectory::take_over(run);
  BOOST_TEST((now.term().number == 2 && !now.lost() && old.lost()));
  BOOST_TEST(!std::filesystem::exists(other));
}

BOOST_AUTO_TEST_CASE(who_has_lost_the_directory_changes_nothing_there) {
  const TempDir dir;
  const RunDirectory first = RunDirectory::create(dir / "run");
  BOOST_TEST(first.claim().stands());
  std::filesystem::remove_all(dir / "run");
  BOOST_TEST(!first.claim().stands());
  BOOST_TEST((first.lost() && static_cast<int>(first.lost()->kind) == 70));
  expect_error(ErrorKind::data, {(dir / "run").string()},
               [&] { first.write("outcome.json", "1"); });
  BOOST_TEST(!std::filesystem::exists(dir / "run"));
  const RunDirectory second = RunDirectory::create(dir / "run");
  second.write("outcome.json", "2");
  expect_error(ErrorKind::data, {(dir / "run").string()},
               [&] { first.write("outcome.json", "1"); });
  expect_error(ErrorKind::data, {}, [&] { first.write_private("control.json", "1"); });
  first.remove("outcome.json");
  first.discard();
  BOOST_TEST(content_of(dir / "run/outcome.json") == "2");
  BOOST_TEST(!std::filesystem::exists(dir / "run/control.json"));
  BOOST_TEST(second.claim().stands());
}

BOOST_AUTO_TEST_CASE(a_moved_owner_still_owns) {
  const TempDir dir;
  RunDirectory first = RunDirectory::create(dir / "run");
  {
    const RunDirectory second = std::move(first);
    BOOST_TEST(launch::has_launcher(dir / "run"));
  }
  BOOST_TEST(!launch::has_launcher(dir / "run"));
}

BOOST_AUTO_TEST_CASE(what_is_no_run_is_named) {
  const TempDir dir;
  for (const auto& path : {dir.path(), dir / "missing"}) {
    expect_error(ErrorKind::data, {path.string(), "not a run directory"},
                 [&] { RunDirectory::reopen(path); });
    expect_error(ErrorKind::data, {path.string()}, [&] { launch::ask_run(path, "status"); });
  }
  BOOST_TEST(!std::filesystem::exists(dir / "lock"));
}

BOOST_AUTO_TEST_CASE(a_secret_is_readable_by_its_owner_alone) {
  const TempDir dir;
  const RunDirectory run = RunDirectory::create(dir / "run");
  run.write_private(launch::kControlFile, "secret");
  run.write_private(launch::kControlFile, "secret again");
  struct stat status {};
  BOOST_REQUIRE(stat((dir / "run/control.json").c_str(), &status) == 0);
  BOOST_TEST((status.st_mode & 0777) == 0600u);
  BOOST_TEST(content_of(dir / "run/control.json") == "secret again");
  run.remove(launch::kControlFile);
  run.remove(launch::kControlFile);
  BOOST_TEST(!std::filesystem::exists(dir / "run/control.json"));
}

BOOST_AUTO_TEST_CASE(an_ending_is_kept_and_a_silent_death_is_told) {
  const TempDir dir;
  {
    const RunDirectory run = RunDirectory::create(dir / "run");
    run.write(launch::kManifestFile, "");
    run.write(launch::kMetricsFile, "{\"step\":1}\n{\"step\":2}\n");
  }
  const auto silent = std::get<launch::Ending>(launch::ask_run(dir / "run", "status"));
  BOOST_TEST(silent.outcome.step == 2);
  BOOST_TEST(silent.outcome.exit_code == 70);
  BOOST_TEST(silent.outcome.reason.find("--resume") != std::string::npos);
  BOOST_TEST(silent.time.size() == 20u);

  const auto ending =
      launch::ending_now({.exit_code = 0, .step = 9, .reason = "finished"}, "/c/step-9");
  dir.write("run/outcome.json", launch::to_json(ending).dump());
  const auto told = std::get<launch::Ending>(launch::ask_run(dir / "run", "status"));
  BOOST_TEST(told.outcome.step == 9);
  BOOST_TEST(told.outcome.reason == "finished");
  BOOST_TEST(told.time == ending.time);
  BOOST_TEST(told.checkpoint == "/c/step-9");
  for (const char* torn : {"", "{", "[]", "{\"step\": 1}", "{\"exit_code\": \"0\"}"}) {
    dir.write("run/outcome.json", torn);
    BOOST_TEST(!launch::read_ending(dir / "run").has_value());
  }
}

/// A run of another user is not told to have crashed because its files cannot be opened.
BOOST_AUTO_TEST_CASE(what_may_not_be_read_is_said_and_is_no_end) {
  const auto refused = [](const std::filesystem::path& run, const char* file) {
    const WithoutPrivilege nobody;
    expect_error(ErrorKind::data, {(run / file).string(), "may not be read"},
                 [&] { launch::ask_run(run, "status"); });
  };
  const TempDir dir;
  std::filesystem::permissions(dir.path(), std::filesystem::perms(0755));
  {
    const RunDirectory run = RunDirectory::create(dir / "run");
    run.write(launch::kManifestFile, "");
    run.write(launch::kControlFile, "{}");
    std::filesystem::permissions(dir / "run/lock", std::filesystem::perms(0644));
    refuse_reading(dir / "run/control.json");
    refused(dir / "run", launch::kControlFile);
    refuse_reading(dir / "run/lock");
    refused(dir / "run", "lock");
  }
  // Of a run that has ended its outcome tells, if that can be read.
  const auto ending = launch::ending_now({.exit_code = 0, .step = 9, .reason = "finished"}, "");
  dir.write("run/outcome.json", launch::to_json(ending).dump());
  {
    const WithoutPrivilege nobody;
    BOOST_TEST(std::get<launch::Ending>(launch::ask_run(dir / "run", "stop")).outcome.step == 9);
  }
  refuse_reading(dir / "run/outcome.json");
  refused(dir / "run", launch::kOutcomeFile);
  refuse_reading(dir / "run");
  refused(dir / "run", launch::kManifestFile);
  std::filesystem::permissions(dir / "run", std::filesystem::perms::owner_all);
}

BOOST_AUTO_TEST_CASE(a_torn_or_foreign_address_is_none) {
  const TempDir dir;
  const launch::ControlAddress address{.host = "127.0.0.1", .port = 1234, .token = "t", .pid = 5};
  dir.write("control.json", nlohmann::json(address).dump());
  BOOST_TEST(launch::read_control(dir.path()).value().port == 1234);
  for (const char* torn : {"", "{\"host\":", "{}", R"({"host":1,"port":2,"token":"t","pid":3})"}) {
    dir.write("control.json", torn);
    BOOST_TEST(!launch::read_control(dir.path()).has_value());
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
