#include "launch/host/signals.h"

#include <fmt/format.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <condition_variable>
#include <deque>
#include <mutex>

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(signals_test)

namespace {

/// Sets the signals as they are for a program that is started in the foreground.
struct Foreground {
  Foreground() {
    for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGXCPU})
      ::signal(number, SIG_DFL);
  }
};

/// Records the orders that a watch gives, one after the other.
class Heard {
 public:
  void listen_to(launch::SignalWatch& watch) {
    watch.orders({.save = [this](const std::string& signal) { record("save: " + signal); },
                  .stop = [this](const std::string& reason) { record("stop: " + reason); },
                  .stop_now = [this](const std::string& reason) { record("now: " + reason); }});
  }
  std::string next() {
    std::unique_lock lock(mutex_);
    spoken_.wait(lock, [this] { return !said_.empty(); });
    const std::string text = said_.front();
    said_.pop_front();
    return text;
  }

 private:
  void record(const std::string& text) {
    const std::lock_guard lock(mutex_);
    said_.push_back(text);
    spoken_.notify_one();
  }

  std::mutex mutex_;
  std::condition_variable spoken_;
  std::deque<std::string> said_;
};

}  // namespace

BOOST_TEST_GLOBAL_FIXTURE(Foreground);

BOOST_AUTO_TEST_CASE(the_first_signal_stops_and_the_second_stops_now) {
  Heard heard;
  launch::SignalWatch watch;
  heard.listen_to(watch);
  kill(getpid(), SIGTERM);
  BOOST_TEST(heard.next() == "stop: stopped by SIGTERM");
  kill(getpid(), SIGINT);
  const std::string second = heard.next();
  BOOST_TEST(second.starts_with("now: "));
  BOOST_TEST(second.find("SIGINT") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(signals_wait_for_orders) {
  Heard heard;
  launch::SignalWatch watch;
  watch.orders({});
  kill(getpid(), SIGTERM);
  kill(getpid(), SIGINT);
  heard.listen_to(watch);
  BOOST_TEST(heard.next().starts_with("stop: stopped by SIG"));
  BOOST_TEST(heard.next().starts_with("now: stopped at once by a second signal"));
}

BOOST_AUTO_TEST_CASE(a_closed_terminal_never_stops_at_once) {
  Heard heard;
  launch::SignalWatch watch;
  heard.listen_to(watch);
  kill(getpid(), SIGHUP);
  BOOST_TEST(heard.next() == "stop: stopped by SIGHUP");
  kill(getpid(), SIGHUP);  // as a shell sends it
  kill(getpid(), SIGTERM);
  BOOST_TEST(heard.next().find("SIGTERM") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_warning_saves_and_the_next_signal_stops_whichever_it_is) {
  for (const int warning : {SIGUSR1, SIGUSR2, SIGXCPU})
    for (const int next : {SIGUSR1, SIGXCPU, SIGTERM}) {
      Heard heard;
      launch::SignalWatch watch;
      heard.listen_to(watch);
      kill(getpid(), warning);
      BOOST_TEST(heard.next() == fmt::format("save: SIG{}", sigabbrev_np(warning)));
      kill(getpid(), next);
      BOOST_TEST(heard.next() == fmt::format("stop: stopped by SIG{}", sigabbrev_np(next)));
    }
}

BOOST_AUTO_TEST_CASE(warnings_never_stop_at_once) {
  Heard heard;
  launch::SignalWatch watch;
  heard.listen_to(watch);
  kill(getpid(), SIGTERM);
  BOOST_TEST(heard.next() == "stop: stopped by SIGTERM");
  kill(getpid(), SIGXCPU);  // as the kernel sends it every second
  kill(getpid(), SIGUSR1);
  kill(getpid(), SIGINT);
  BOOST_TEST(heard.next().find("SIGINT") != std::string::npos);
  for (const int number : {SIGXCPU, SIGUSR1}) {  // drops what nobody has read, as it is blocked
    ::signal(number, SIG_IGN);
    ::signal(number, SIG_DFL);
  }
}

BOOST_AUTO_TEST_CASE(what_nohup_ignores_stays_ignored) {
  ::signal(SIGHUP, SIG_IGN);
  Heard heard;
  launch::SignalWatch watch;
  heard.listen_to(watch);
  kill(getpid(), SIGHUP);
  kill(getpid(), SIGTERM);
  BOOST_TEST(heard.next() == "stop: stopped by SIGTERM");
  ::signal(SIGHUP, SIG_IGN);  // drops the signal that the tests before have left blocked
  ::signal(SIGHUP, SIG_DFL);
}

BOOST_AUTO_TEST_CASE(after_the_end_signals_are_ignored) {
  launch::SignalWatch watch;
  watch.orders({});
  kill(getpid(), SIGTERM);
  kill(getpid(), SIGTERM);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
