#include "actors/protocol/liveness.h"

#include <boost/test/unit_test.hpp>
#include <string>

namespace troupe::actors {

BOOST_AUTO_TEST_SUITE(liveness_test)

namespace {

constexpr double kTick = std::chrono::duration<double>(kLivenessTick).count();

/// Ticks for `seconds`. Returns what was said about which rank meanwhile.
std::string judged(Liveness& liveness, double seconds) {
  std::string said;
  for (int ticks = static_cast<int>(seconds / kTick); ticks > 0; --ticks)
    for (const auto& verdict : liveness.tick(0))
      said += std::to_string(verdict.incarnation) + " " + verdict.message + "; ";
  return said;
}

Heartbeat beat_of(std::uint64_t incarnation, const std::string& state, std::uint64_t progress) {
  return {.incarnation = incarnation,
          .progress = progress,
          .longest_action_s = 1.0,
          .state = state,
          .waiting_for = ""};
}

}  // namespace

BOOST_AUTO_TEST_CASE(who_is_silent_is_named_once) {
  Liveness liveness({.silent_s = 3, .hang_s = 0});
  for (const std::uint64_t worker : {1, 2}) liveness.watch(worker);
  BOOST_TEST(judged(liveness, 2.5) == "");
  liveness.on_heartbeat(beat_of(2, "ready", 0));
  BOOST_TEST(judged(liveness, 0.5) == "1 silence: no sign of life for 3 s; ");
  BOOST_TEST(judged(liveness, 2) == "");
  BOOST_TEST(judged(liveness, 0.5) == "2 silence: no sign of life for 3 s; ");
  BOOST_TEST(judged(liveness, 100) == "");
}

BOOST_AUTO_TEST_CASE(nothing_counts_against_workers_while_their_host_is_not_heard) {
  bool hears = true;
  Liveness liveness({.silent_s = 3, .hang_s = 5}, [&](std::uint64_t worker) {
    return worker != 1 || hears;  // the host of worker 1 alone
  });
  for (const std::uint64_t worker : {1, 2}) liveness.watch(worker);
  liveness.expect(3);
  BOOST_TEST(judged(liveness, 1) == "");
  hears = false;
  BOOST_TEST(judged(liveness, 2) ==
             "2 silence: no sign of life for 3 s; "
             "3 silence: it has not joined and has done nothing for 3 s; ");
  BOOST_TEST(judged(liveness, 100) == "");
  hears = true;  // it is, and the beat of its worker comes right behind
  BOOST_TEST(judged(liveness, 1) == "");
  liveness.on_heartbeat(beat_of(1, "ready", 0));
  BOOST_TEST(judged(liveness, 2.5) == "");
  BOOST_TEST(judged(liveness, 0.5) == "1 silence: no sign of life for 3 s; ");
}

BOOST_AUTO_TEST_CASE(who_waits_for_a_processor_is_not_silent) {
  double used_s = 0;
  Liveness liveness({.silent_s = 3, .hang_s = 0}, {}, [&](std::uint64_t worker) {
    return worker == 1 ? used_s : 5.0;  // worker 2 is stopped
  });
  for (const std::uint64_t worker : {1, 2}) liveness.watch(worker);
  const auto starved = [&](double seconds) {  // it gets a little now and then
    std::string said;
    for (; seconds > 0; seconds -= 1) {
      used_s += 0.01;
      said += judged(liveness, 1);
    }
    return said;
  };
  BOOST_TEST(starved(2) == "");
  BOOST_TEST(starved(8) == "2 silence: no sign of life for 3 s; ");
  liveness.on_heartbeat(beat_of(1, "ready", 0));
  BOOST_TEST(starved(30) == "");
  BOOST_TEST(starved(10) == "1 silence: no sign of life for 33 s; ");
  liveness.watch(1);  // what it has used right after its last heartbeat does not count
  BOOST_TEST(starved(1) == "");
  BOOST_TEST(judged(liveness, 2) == "1 silence: no sign of life for 3 s; ");
}

BOOST_AUTO_TEST_CASE(a_runner_hangs_when_it_computes_and_finishes_nothing) {
  Liveness liveness({.silent_s = 0, .hang_s = 5});
  liveness.watch(1);
  const auto beats = [&](const char* state, double seconds) {
    std::string said;
    for (int i = static_cast<int>(seconds); i > 0; --i) {
      liveness.on_heartbeat(beat_of(1, state, 7));
      said += judged(liveness, 1);
    }
    return said;
  };
  BOOST_TEST(beats("waiting", 20) == "");
  BOOST_TEST(beats("running", 7) == "");  // the limit of eight times its longest action is 8 s
  BOOST_TEST(beats("running", 1) == "1 hanging: no action finished for 8 s; ");
}

BOOST_AUTO_TEST_CASE(a_newborn_worker_that_does_nothing_is_silent) {
  Liveness liveness({.silent_s = 3, .hang_s = 0});
  for (const std::uint64_t worker : {1, 2}) liveness.expect(worker);
  BOOST_TEST((liveness.expected() == std::vector<std::uint64_t>{1, 2}));
  double cpu_s = 0;
  for (int second = 0; second < 2; ++second) {
    liveness.worked(1, 0.5);  // it was stopped
    liveness.worked(2, cpu_s += 0.001);
    BOOST_TEST(judged(liveness, 1) == "");
  }
  liveness.worked(1, 0.5);
  liveness.worked(2, cpu_s += 0.001);
  BOOST_TEST(judged(liveness, 1) == "1 silence: it has not joined and has done nothing for 3 s; ");
  liveness.watch(2);
  BOOST_TEST(liveness.expected().empty());
}

BOOST_AUTO_TEST_CASE(a_newborn_worker_has_a_minute_to_join) {
  Liveness liveness({.silent_s = 0, .hang_s = 0});
  for (const std::uint64_t worker : {1, 2, 3}) liveness.expect(worker);
  BOOST_TEST(judged(liveness, 59) == "");
  liveness.watch(1);
  liveness.forget(2);
  BOOST_TEST(judged(liveness, 1) == "3 silence: it has not joined for 60 s; ");
  BOOST_TEST(judged(liveness, 100) == "");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::actors
