#include "launch/run/save_hook.h"

#include <signal.h>

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "tests/support/temp_dir.h"

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(save_hook_test)

namespace {

struct Fixture {
  TempDir dir;
  std::vector<std::string> told;
  std::mutex mutex;

  launch::SaveHook::Command command(const std::string& text, double patience_s = 60) const {
    return {.text = text, .patience_s = patience_s, .log = dir / "log", .run = dir.path().string()};
  }
  std::function<void(const std::string&)> tell() {
    return [this](const std::string& text) {
      const std::lock_guard lock(mutex);
      told.push_back(text);
    };
  }
  /// A checkpoint's directory.
  std::string checkpoint(int step) const {
    const auto path = dir / ("step-" + std::to_string(step));
    std::filesystem::create_directories(path);
    return path.string();
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(save_hook, Fixture)

BOOST_AUTO_TEST_CASE(a_command_runs_for_each_checkpoint_in_order) {
  launch::SaveHook hook(
      command("read line; echo \"$TROUPE_STEP $TROUPE_CHECKPOINT $TROUPE_RUN$line\""), tell());
  std::string expected;
  for (const int step : {2, 4, 6}) {
    hook.saved(step, checkpoint(step));
    expected += std::to_string(step) + " " + checkpoint(step) + " " + dir.path().string() + "\n";
  }
  hook.finish();
  BOOST_TEST(!hook.busy());
  BOOST_TEST(told.empty());
  BOOST_TEST(content_of(dir / "log") == expected);
}

BOOST_AUTO_TEST_CASE(one_that_fails_is_told_and_the_next_runs) {
  launch::SaveHook hook(command("echo $TROUPE_STEP; test $TROUPE_STEP = 4 || exit 3"), tell());
  hook.saved(2, checkpoint(2));
  hook.saved(3, (dir / "step-3").string());  // is gone
  hook.saved(4, checkpoint(4));
  hook.finish();
  BOOST_REQUIRE(told.size() == 2u);
  BOOST_TEST(told[0].find("step-2 ended with exit code 3") != std::string::npos, told[0]);
  BOOST_TEST(told[0].find((dir / "log").string()) != std::string::npos, told[0]);
  BOOST_TEST(told[1].find("step-3 is removed already") != std::string::npos, told[1]);
  BOOST_TEST(content_of(dir / "log") == "2\n4\n");
}

BOOST_AUTO_TEST_CASE(one_that_hangs_is_ended_with_what_it_has_started) {
  launch::SaveHook hook(command("echo $$; trap '' TERM; sleep 1000 & sleep 1000", 2), tell());
  hook.saved(2, checkpoint(2));
  hook.finish();
  BOOST_REQUIRE(told.size() == 1u);
  BOOST_TEST(told[0].find("was ended") != std::string::npos, told[0]);
  const int session = std::stoi(content_of(dir / "log"));
  while (kill(-session, 0) == 0) std::this_thread::yield();  // killed, and reaped by init
}

BOOST_AUTO_TEST_CASE(who_gives_up_waits_for_none) {
  launch::SaveHook hook(command("echo $TROUPE_STEP; exec sleep 1000", 1e6), tell());
  hook.saved(2, checkpoint(2));
  while (!std::filesystem::exists(dir / "log") || content_of(dir / "log").empty())
    std::this_thread::yield();
  hook.saved(4, checkpoint(4));
  hook.give_up();
  hook.finish();
  BOOST_TEST(content_of(dir / "log") == "2\n");
  BOOST_TEST(told.size() == 2u);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
