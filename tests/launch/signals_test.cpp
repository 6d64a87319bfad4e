#include "launch/signals.h"

#include <signal.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <future>

#include "launch/signals.h"

namespace troupe::test {
namespace {

/// The next order that a watch gives.
class Heard {
 public:
  explicit Heard(launch::SignalWatch& watch) {
    watch.orders({.stop = [this](const std::string& reason) { say("stop: " + reason); },
                  .stop_now = [this](const std::string& reason) { say("now: " + reason); }});
  }
  std::string next() {
    auto order = said_.get_future();
    const std::string text = order.get();
    said_ = {};
    return text;
  }

 private:
  void say(const std::string& text) { said_.set_value(text); }
  std::promise<std::string> said_;
};

}  // namespace

BOOST_AUTO_TEST_CASE(the_first_signal_stops_and_the_second_stops_now) {
  launch::SignalWatch watch;
  Heard heard(watch);
  kill(getpid(), SIGTERM);
  BOOST_TEST(heard.next() == "stop: stopped by SIGTERM");
  kill(getpid(), SIGINT);
  const std::string second = heard.next();
  BOOST_TEST(second.starts_with("now: "));
  BOOST_TEST(second.find("SIGINT") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_closed_terminal_never_stops_at_once) {
  launch::SignalWatch watch;
  Heard heard(watch);
  kill(getpid(), SIGHUP);
  BOOST_TEST(heard.next() == "stop: stopped by SIGHUP");
  kill(getpid(), SIGHUP);  // a shell's own
  kill(getpid(), SIGTERM);
  BOOST_TEST(heard.next().find("SIGTERM") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(after_the_end_signals_are_ignored) {
  launch::SignalWatch watch;
  watch.orders({});
  kill(getpid(), SIGTERM);
  kill(getpid(), SIGTERM);
}

}  // namespace troupe::test
