#include <boost/test/unit_test.hpp>
#include <utility>

#include "actors/protocol/protocol.h"
#include "tests/support/protocol_driver.h"
#include "tests/support/run_specs.h"

// An order to change the cluster: workers that come for it, and workers that end before it is over.

namespace troupe::actors {

BOOST_AUTO_TEST_SUITE(change_test)

BOOST_AUTO_TEST_CASE(nobody_stops_for_a_change_before_all_are_warm) {
  Driver driver(test::small_run(1, 1));
  driver.start();
  driver.on(ScaleOrdered{.order = 1, .request = {.pp = 2}});
  BOOST_TEST(driver.warming.empty());  // not all workers are there to connect to
  driver.on(driver.joined(1));
  BOOST_TEST_REQUIRE(driver.warming.size() == 2u);
  driver.on(driver.warming.front());
  BOOST_TEST(find<OrderStep>(driver.prepared(1)));
  driver.warm();
  const auto effects = driver.prepared(2);
  BOOST_TEST(find<OrderHalt>(effects));
  BOOST_TEST(!find<OrderStep>(effects));
}

BOOST_AUTO_TEST_CASE(a_death_makes_connections_anew_though_the_change_is_not_over) {
  Driver driver(test::small_run(1, 1));
  driver.start();
  driver.on(ScaleOrdered{.order = 1, .request = {.pp = 2}});
  driver.on(driver.joined(1));
  driver.warm();
  const auto changing = driver.prepared(1);
  const auto* halt = find<OrderHalt>(changing);
  BOOST_TEST_REQUIRE(halt);
  BOOST_TEST(!halt->halt.reconnect);
  BOOST_TEST(halt->change == "--pp 2");
  for (const int rank : {1, 0}) driver.on(driver.halted(rank, 2, {.step = rank == 0 ? 1 : -1}));
  driver.ready();
  const auto losing = driver.on(driver.exited(1, false));
  const auto* again = find<OrderHalt>(losing);
  BOOST_TEST_REQUIRE(again);
  BOOST_TEST(again->halt.reconnect);
  BOOST_TEST(again->change == "--pp 2");  // the first step of the change is not committed yet
}

/// A newcomer may die while the others train, while they have halted for it, and while it takes its
/// state: nothing is lost.
BOOST_AUTO_TEST_CASE(a_newcomer_that_dies_before_it_has_a_part_is_nobodys_loss) {
  Driver driver(that_stops(test::small_run(1, 1)));
  driver.start();
  driver.on(ScaleOrdered{.order = 1, .request = {.pp = 2}});
  driver.on(driver.joined(1));
  auto effects = driver.on(driver.exited(1, false));
  BOOST_TEST(!find<OrderHalt>(effects));
  BOOST_TEST(!find<ReportWorkerLost>(effects)->has_part);
  BOOST_TEST(!find<ReportWorkerLost>(effects)->ends_run);
  BOOST_TEST(find<ReportWorkerLost>(effects)->cause ==
             "rank 1 (replica 0, stage 1) ended by signal 9 (SIGKILL)");
  BOOST_TEST(find<SpawnWorker>(effects));
  driver.on(driver.joined(1));
  driver.warm();
  BOOST_TEST(find<OrderHalt>(driver.prepared(1)));
  effects = driver.on(driver.exited(1, false));
  BOOST_TEST(!find<ReportWorkerLost>(effects)->has_part);
  BOOST_TEST_REQUIRE(find<OrderHalt>(effects));
  BOOST_TEST(!find<OrderHalt>(effects)->halt.reconnect);  // it never connected to any worker
  BOOST_TEST(find<StartConfiguration>(driver.on(driver.halted(0, 3, {.step = 1}))));
  effects = driver.ready();
  BOOST_TEST(find<SpawnWorker>(effects));
  BOOST_TEST(find<OrderStep>(effects)->step == 2);
  driver.on(driver.joined(1));
  driver.warm();
  driver.prepared(2);
  driver.on(driver.halted(1, 4, {}));
  BOOST_TEST(find<StartConfiguration>(driver.on(driver.halted(0, 4, {.step = 2}))));
  effects = driver.on(driver.exited(1, false));
  BOOST_TEST(find<OrderHalt>(effects)->halt.reconnect);  // it may have been sending
  const auto* answer = find<AnswerScale>(effects);
  BOOST_TEST_REQUIRE(answer);
  BOOST_TEST((answer->kind == ErrorKind::unavailable));
  BOOST_TEST(answer->refused ==
             "the change has failed 3 times, and the run goes on without it; the last time: rank 1 "
             "(replica 0, stage 1) ended by signal 9 (SIGKILL); see the logs of the run");
  driver.on(driver.halted(0, 5, {.step = 2}));
  effects = driver.ready();
  BOOST_TEST(!find<SpawnWorker>(effects));
  BOOST_TEST(find<OrderStep>(effects)->step == 3);
}

/// Losses of newcomers and of workers that train count together.
BOOST_AUTO_TEST_CASE(a_change_is_given_up_after_failures_of_several_kinds) {
  Driver driver(test::small_run(1, 1));
  driver.start();
  driver.on(ScaleOrdered{.order = 1, .request = {.pp = 2}});
  for (int time = 0; time < 2; ++time) {
    driver.on(driver.joined(1));
    driver.on(driver.exited(1, false));
  }
  driver.on(driver.joined(1));
  driver.warm();
  driver.prepared(1);
  driver.on(driver.halted(1, 2, {}));
  driver.on(driver.halted(0, 2, {.step = 1}));
  const auto effects = driver.on(driver.exited(0, false));
  const auto* answer = find<AnswerScale>(effects);
  BOOST_TEST_REQUIRE(answer);
  BOOST_TEST(answer->refused.starts_with("the change has failed 3 times, and the run goes on "
                                         "without it; the last time: rank 0 "),
             answer->refused);
}

/// A newcomer may, for example, lack memory for its stage: the order fails then, not the run.
BOOST_AUTO_TEST_CASE(a_newcomer_that_says_why_it_cannot_ends_no_run) {
  Driver driver(that_stops(test::small_run(1, 1)));
  driver.start();
  driver.on(ScaleOrdered{.order = 1, .request = {.pp = 2}});
  std::vector<Effect> effects;
  for (int time = 0; time < 3; ++time) {
    driver.on(driver.joined(1));
    effects = driver.on(WorkerFailed{.incarnation = driver.workers.at(1),
                                     .configuration = 1,
                                     .kind = ErrorKind::data,
                                     .message = "no room",
                                     .now_s = 1});
    BOOST_TEST(find<KillWorker>(effects));
  }
  BOOST_TEST_REQUIRE(find<AnswerScale>(effects));
  BOOST_TEST(find<AnswerScale>(effects)->refused.find("no room") != std::string::npos);
  BOOST_TEST(find<OrderStep>(driver.prepared(1)));
}

BOOST_AUTO_TEST_CASE(who_has_no_use_after_an_order_was_given_up_leaves) {
  Driver driver(that_stops(test::small_run(1, 1)));
  driver.start();
  driver.on(ScaleOrdered{.order = 1, .request = {.pp = 3}});
  driver.on(driver.joined(1));
  for (int time = 0; time < 3; ++time) driver.on(driver.exited(2, false));
  const auto effects = driver.prepared(1);
  BOOST_TEST_REQUIRE(find<OrderLeave>(effects));
  BOOST_TEST(find<OrderLeave>(effects)->incarnation == driver.workers.at(1));
}

/// The worker was asked to halt, and has no place in the configuration that follows.
BOOST_AUTO_TEST_CASE(a_worker_without_a_part_may_die_while_its_answer_is_awaited) {
  Driver driver(test::small_run(1, 1));
  driver.start();
  driver.on(ScaleOrdered{.order = 1, .request = {.pp = 3}});
  const std::uint64_t second = driver.workers.at(1), third = driver.workers.at(2);
  for (const int rank : {1, 2}) driver.on(driver.joined(rank));
  driver.warm();
  driver.prepared(1);
  const auto halted = [&](std::uint64_t incarnation, std::uint32_t configuration) {
    Halted event = driver.halted(0, configuration, {});
    event.incarnation = incarnation;
    return driver.on(event);
  };
  const auto killed = [&](std::uint64_t incarnation) {
    WorkerExited event = driver.exited(0, false);
    event.incarnation = incarnation;
    return driver.on(event);
  };
  for (const std::uint64_t newcomer : {second, third}) halted(newcomer, 2);
  BOOST_TEST_REQUIRE(find<StartConfiguration>(halted(driver.workers.at(0), 2)));
  BOOST_TEST(find<OrderHalt>(killed(driver.workers.at(0))));
  halted(second, 3);
  BOOST_TEST_REQUIRE(find<StartConfiguration>(halted(third, 3)));
  driver.ready();
  BOOST_TEST(driver.workers.at(2) != third);
  driver.on(driver.joined(2));
  driver.warm();
  BOOST_TEST(find<OrderHalt>(driver.prepared(1)));
  BOOST_TEST(find<OrderHalt>(killed(driver.workers.at(2))));
  BOOST_TEST(!find<StartConfiguration>(halted(second, 5)));
  BOOST_TEST(find<StartConfiguration>(killed(third)));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::actors
