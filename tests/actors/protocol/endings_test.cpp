#include <fmt/format.h>

#include <boost/test/unit_test.hpp>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "actors/protocol/protocol.h"
#include "tests/support/protocol_driver.h"
#include "tests/support/protocol_endings.h"
#include "tests/support/run_specs.h"

// How the protocol ends a run, and what it saves before.

namespace troupe::actors {

BOOST_AUTO_TEST_SUITE(endings_test)

BOOST_AUTO_TEST_CASE(the_step_before_one_that_is_not_finite_is_saved_and_named) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  Driver driver(test::small_run());
  driver.start();
  driver.prepared(1);
  const auto refused = driver.prepared(2, nan);
  BOOST_REQUIRE(find<OrderSave>(refused));
  BOOST_TEST(find<OrderSave>(refused)->step == 1);
  BOOST_TEST(!find<Finish>(refused));
  driver.saved(1);
  BOOST_TEST(find<Finish>(driver.on(Published{.step = 1})));
  const Outcome outcome = end_of(driver);
  BOOST_TEST(outcome.exit_code == 70);
  BOOST_TEST(outcome.step == 1);
  for (const std::string& part :
       {std::string("step 2 was not committed"), checkpoint_path(driver.spec, 1)})
    BOOST_TEST(outcome.reason.find(part) != std::string::npos, outcome.reason);
}

BOOST_AUTO_TEST_CASE(why_the_step_before_one_that_is_not_finite_was_not_saved_is_told) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const bool full : {true, false}) {
    Driver driver(test::small_run());
    driver.start();
    driver.prepared(1);
    driver.prepared(2, nan);
    const std::string why = full ? "the disk is full" : "a second signal";
    if (full)
      fail_every_save(driver, 1, why);
    else
      driver.on(StopNowOrdered{.reason = why});
    const Outcome outcome = end_of(driver);
    BOOST_TEST(outcome.exit_code == 70);
    for (const std::string& part :
         {std::string("step 2 was not committed"), "step 1 could not be saved: " + why})
      BOOST_TEST(outcome.reason.find(part) != std::string::npos, outcome.reason);
  }
}

BOOST_AUTO_TEST_CASE(a_run_that_stops_at_a_loss_is_saved_from_memory_before) {
  Driver driver(that_stops(test::small_run(2)));
  driver.start();
  driver.prepared(1);
  driver.prepared(2);
  const auto lost = driver.on(driver.exited(1, false));
  BOOST_TEST(!find<Finish>(lost));
  const StateInventory left{.step = 2, .has_previous = true, .copies = {{.rank = 1, .step = 2}}};
  const Outcome outcome = end_saved(driver, recover(driver, lost, {{0, left}}), 2);
  BOOST_TEST(outcome.exit_code == 70);
  BOOST_TEST(outcome.reason == "rank 1 (replica 0, stage 1) ended by signal 9 (SIGKILL)");
}

BOOST_AUTO_TEST_CASE(a_failed_run_computes_nothing_again) {
  Driver driver(that_stops(test::small_run(2)));
  driver.start();
  driver.prepared(1);
  const auto lost = driver.on(driver.exited(1, false));
  // No copy of what rank 1 had is left.
  driver.on(driver.halted(0, find<OrderHalt>(lost)->halt.configuration, {.step = 1}));
  BOOST_TEST(find<Finish>(driver.on(driver.joined(1))));
  const Outcome outcome = end_of(driver);
  BOOST_TEST(outcome.exit_code == 70);
  BOOST_TEST(
      outcome.reason.find("step 1 could not be saved: memory has it no more") != std::string::npos,
      outcome.reason);
}

BOOST_AUTO_TEST_CASE(an_error_of_data_or_of_the_director_ends_a_run_saved) {
  for (const bool data : {true, false}) {
    Driver driver(test::small_run(2));
    driver.start();
    driver.prepared(1);
    const auto failed = data ? driver.on(WorkerFailed{.incarnation = driver.workers.at(1),
                                                      .configuration = 1,
                                                      .kind = ErrorKind::data,
                                                      .message = "text.bin is gone"})
                             : driver.on(DirectorFailed{.message = "no memory"});
    BOOST_TEST(!find<KillWorker>(failed));
    const OrderHalt* halt = find<OrderHalt>(failed);
    BOOST_REQUIRE(halt);
    driver.on(driver.halted(0, halt->halt.configuration, {.step = 1}));
    const auto begun = driver.on(driver.halted(1, halt->halt.configuration, {.step = 1}));
    BOOST_REQUIRE(find<StartConfiguration>(begun));
    BOOST_TEST(find<StartConfiguration>(begun)->saves_only);
    const Outcome outcome = end_saved(driver, driver.ready(), 1);
    BOOST_TEST(outcome.exit_code == (data ? 65 : 70));
    BOOST_TEST(outcome.reason.find(data ? "text.bin is gone" : "no memory") != std::string::npos);
  }
}

BOOST_AUTO_TEST_CASE(attempts_wait_longer_each_time_and_the_fifth_that_fails_ends_the_run) {
  Driver driver(test::small_run(2));
  driver.on(Started{});
  for (const double delay : {1, 2, 4, 8}) {
    driver.on(driver.joined(0));
    const auto effects = driver.on(driver.exited(1, false));
    const SpawnWorker* spawn = find<SpawnWorker>(effects);
    BOOST_REQUIRE(spawn);
    BOOST_TEST(spawn->delay_s == delay);
    const std::string& told = find<ReportWorkerLost>(effects)->cause;
    BOOST_TEST(told.find(fmt::format("tried again in {} s", delay)) != std::string::npos, told);
  }
  BOOST_TEST(find<Finish>(driver.on(driver.exited(1, false))));
  const Outcome outcome = end_of(driver);
  BOOST_TEST(outcome.exit_code == 70);
  BOOST_TEST(outcome.reason.starts_with("5 attempts in a row ended before a step was committed"));
}

BOOST_AUTO_TEST_CASE(all_workers_that_are_lost_at_once_are_one_attempt) {
  Driver driver(test::small_run(6));
  driver.start();
  driver.prepared(1);
  const auto lose_all = [&](const std::map<int, std::uint64_t>& workers, double delay) {
    for (const auto& [rank, incarnation] : workers) {
      const auto effects =
          driver.on(WorkerExited{.incarnation = incarnation, .cause = "signal 9", .now_s = 1});
      BOOST_REQUIRE(find<SpawnWorker>(effects));
      BOOST_TEST(find<SpawnWorker>(effects)->delay_s == delay);
    }
  };
  const auto old = driver.workers;
  lose_all(old, 0);
  const auto replacements = driver.workers;
  lose_all(replacements, 1);
}

BOOST_AUTO_TEST_CASE(a_worker_that_cannot_halt_is_lost_at_once) {
  Driver driver(test::small_run(2));
  driver.start();
  driver.prepared(1);
  const auto lost = driver.on(driver.exited(1, false));
  const auto effects =
      driver.on(WorkerFailed{.incarnation = driver.workers.at(0),
                             .configuration = find<OrderHalt>(lost)->halt.configuration,
                             .kind = ErrorKind::unavailable,
                             .message = "no thread left",
                             .symptom = true});
  BOOST_TEST(find<KillWorker>(effects));
  BOOST_TEST(find<SpawnWorker>(effects));
}

BOOST_AUTO_TEST_CASE(a_change_that_fails_for_good_is_refused_and_costs_no_run) {
  Driver driver(test::small_run(2));
  driver.start();
  driver.on(ScaleOrdered{.order = 7, .request = {.pp = 1}});
  driver.warm();
  const auto changed = driver.prepared(1);
  for (int rank = 0; rank < 2; ++rank)
    driver.on(driver.halted(rank, find<OrderHalt>(changed)->halt.configuration, {.step = 1}));
  const auto effects = driver.on(WorkerFailed{.incarnation = driver.workers.at(0),
                                              .configuration = driver.configuration(),
                                              .kind = ErrorKind::data,
                                              .message = "text.bin is gone"});
  const AnswerScale* answer = find<AnswerScale>(effects);
  BOOST_REQUIRE(answer);
  BOOST_TEST(answer->refused.find("text.bin is gone; the run goes on") != std::string::npos);
  BOOST_TEST(!find<KillWorker>(effects));
  const auto ready = recover(driver, effects, {{0, {.step = 1}}, {1, {.step = 1}}});
  BOOST_REQUIRE(find<OrderStep>(ready));
  BOOST_TEST(find<OrderStep>(ready)->step == 2);
  BOOST_TEST(driver.protocol.configuration().shape.mesh.pp == 2);
}

BOOST_AUTO_TEST_CASE(a_stop_before_the_first_configuration_is_half_way) {
  Driver driver(test::small_run(2));
  driver.on(Started{});
  driver.on(StopOrdered{.reason = "SIGINT"});
  BOOST_TEST(end_of(driver).exit_code == 75);
}

BOOST_AUTO_TEST_CASE(a_stop_orders_no_more_of_an_evaluation) {
  RunSpec spec = test::small_run(1, 2);
  spec.eval = {.interval = 1, .steps = 1000, .sets = {{.samples = 1000 * spec.batch.global}}};
  Driver driver(spec);
  driver.start();
  const auto evaluates = [&](std::int64_t batch) {
    return driver.by_replicas([&](int r) {
      return Event{ReplicaEvaluated{.configuration = 1, .step = 1, .batch = batch, .replica = r}};
    });
  };
  BOOST_TEST(driver.prepared(1).size() == 3u);  // the commit and two batches
  BOOST_REQUIRE(find<Evaluate>(evaluates(0)));
  BOOST_TEST(*driver.protocol.evaluated() == 1);
  BOOST_TEST(driver.on(StopOrdered{.reason = "SIGINT"}).empty());
  BOOST_TEST(evaluates(1).empty());
  const auto last = evaluates(2);
  BOOST_TEST(!find<ReportEvaluation>(last));
  BOOST_REQUIRE(find<OrderSave>(last));
  BOOST_TEST(find<OrderSave>(last)->step == 1);
}

BOOST_AUTO_TEST_CASE(an_evaluation_is_summed_by_batch_whoever_answers_first) {
  RunSpec spec = test::small_run(1, 2);
  spec.eval = {.interval = 1, .steps = 2, .sets = {{.samples = 2 * spec.batch.global}}};
  Driver driver(spec);
  driver.start();
  driver.prepared(1);
  const auto answer = [&](std::int64_t batch, int replica) {
    return driver.on(ReplicaEvaluated{
        .configuration = 1, .step = 1, .batch = batch, .replica = replica, .loss_sum = 64});
  };
  BOOST_TEST(answer(0, 1).empty());
  BOOST_TEST(answer(1, 1).empty());
  BOOST_TEST(answer(0, 0).empty());
  BOOST_TEST(answer(0, 0).empty());  // again
  const auto last = answer(1, 0);
  BOOST_REQUIRE(find<ReportEvaluation>(last));
  BOOST_TEST(find<ReportEvaluation>(last)->losses.at(0) == 1.0);
}

BOOST_AUTO_TEST_CASE(a_stop_while_a_step_is_saved_ends_with_that_step) {
  RunSpec spec = test::small_run();
  spec.checkpoint.interval = 1;
  Driver driver(spec);
  driver.start();
  BOOST_REQUIRE(find<OrderSave>(driver.prepared(1)));
  BOOST_TEST(driver.on(StopOrdered{.reason = "SIGINT"}).empty());
  BOOST_TEST(driver.prepared(2).empty());  // it would have to be saved, too
  driver.saved(1);
  BOOST_TEST(find<Finish>(driver.on(Published{.step = 1})));
  const Outcome outcome = end_of(driver);
  BOOST_TEST(outcome.exit_code == 0);
  BOOST_TEST(outcome.step == 1);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::actors
