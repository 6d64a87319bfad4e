#include "actors/protocol/protocol.h"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <limits>
#include <utility>

#include "tests/support/protocol_driver.h"
#include "tests/support/run_specs.h"

namespace troupe::actors {

BOOST_AUTO_TEST_SUITE(protocol_test)

using Phase = DirectorProtocol::Phase;

BOOST_AUTO_TEST_CASE(a_run_spawns_joins_prepares_and_steps) {
  Driver driver(test::small_run(2, 2));
  const auto begin = driver.on(Started{});
  BOOST_TEST(std::count_if(begin.begin(), begin.end(), [](const Effect& e) {
               return std::holds_alternative<SpawnWorker>(e);
             }) == 4);
  for (int rank = 0; rank < 3; ++rank) BOOST_TEST(driver.on(driver.joined(rank)).empty());
  const auto all = driver.on(driver.joined(3));
  BOOST_REQUIRE(find<StartConfiguration>(all));
  BOOST_TEST(find<StartConfiguration>(all)->configuration.members.at(3).pid == 1003);
  BOOST_TEST(!find<StartConfiguration>(all)->state.from_memory);
  BOOST_TEST(driver.on(ReplicaReady{.configuration = 1, .replica = 0}).empty());
  const auto ready = driver.on(ReplicaReady{.configuration = 1, .replica = 1});
  BOOST_REQUIRE(find<OrderStep>(ready));
  BOOST_TEST(find<OrderStep>(ready)->step == 1);
}

BOOST_AUTO_TEST_CASE(a_step_commits_when_the_last_replica_has_voted) {
  Driver driver(test::small_run(2, 2));
  driver.start();
  BOOST_TEST(driver.on(ReplicaPrepared{.configuration = 1, .step = 1, .replica = 1, .loss_sum = 2})
                 .empty());
  const auto effects = driver.on(ReplicaPrepared{
      .configuration = 1, .step = 1, .replica = 0, .loss_sum = 1, .squared_norm = 9});
  const auto* commit = find<OrderCommit>(effects);
  BOOST_REQUIRE(commit);
  BOOST_TEST(commit->loss == (1.0 + 2.0) / 128);
  BOOST_TEST(commit->grad_norm == 3.0);
  BOOST_TEST(commit->clip_factor == 1.0 / (3.0 + 1e-6));
  BOOST_REQUIRE(find<OrderStep>(effects));
  BOOST_TEST(find<OrderStep>(effects)->step == 2);
  BOOST_TEST(driver.protocol.committed() == 1);
}

BOOST_AUTO_TEST_CASE(the_loss_is_the_mean_over_the_targets_that_votes_count) {
  Driver driver(test::small_run());
  driver.start();
  const auto effects = driver.on(ReplicaPrepared{
      .configuration = 1, .step = 1, .loss_sum = 30, .targets = 40, .squared_norm = 1});
  const auto* commit = find<OrderCommit>(effects);
  BOOST_REQUIRE(commit);
  BOOST_TEST(commit->loss == 0.75);
  BOOST_TEST(commit->targets == 40);
}

BOOST_AUTO_TEST_CASE(votes_of_another_configuration_or_step_count_for_nothing) {
  Driver driver(test::small_run());
  driver.start();
  const auto early = driver.on(ReplicaPrepared{.configuration = 2, .step = 1});
  BOOST_TEST(find<ReportRefused>(early)->why == "configuration 2, but the newest is 1");
  BOOST_TEST(driver.on(ReplicaPrepared{.configuration = 1, .step = 2}).empty());
  BOOST_TEST(driver.protocol.committed() == 0);
}

BOOST_AUTO_TEST_CASE(a_loss_or_norm_that_is_not_finite_is_never_committed) {
  const double nan = std::numeric_limits<double>::quiet_NaN(),
               inf = std::numeric_limits<double>::infinity();
  for (const auto& [loss, squares] : {std::pair{nan, 1.0}, {inf, 1.0}, {1.0, nan}, {1.0, inf}}) {
    Driver driver(test::small_run());
    driver.start();
    const auto effects = driver.prepared(1, loss, squares);
    BOOST_TEST(!find<OrderCommit>(effects));
    BOOST_TEST(driver.protocol.committed() == 0);
    const Outcome outcome = end_of(driver);
    BOOST_TEST(outcome.exit_code == 70);
    BOOST_TEST(outcome.reason.find("step 1") != std::string::npos);
  }
}

BOOST_AUTO_TEST_CASE(replicas_that_differ_end_the_run_unless_they_are_repaired) {
  for (const bool repairs : {false, true}) {
    RunSpec spec = test::small_run();
    spec.mesh.dp = 2;
    spec.data_parallel.repairs = repairs;
    Driver driver(spec);
    driver.on(Started{});
    for (int rank = 0; rank < spec.num_ranks(); ++rank) driver.on(driver.joined(rank));
    const auto effects = driver.on(
        ReplicaReady{.configuration = 1, .replica = 1, .difference = "rank 1 had others"});
    if (repairs) {
      BOOST_REQUIRE(find<ReportRepair>(effects));
      BOOST_TEST(find<ReportRepair>(effects)->difference == "rank 1 had others");
      BOOST_TEST(find<OrderStep>(driver.on(ReplicaReady{.configuration = 1, .replica = 0})));
      continue;
    }
    const Outcome outcome = end_of(driver);
    BOOST_TEST(outcome.exit_code == 70);
    BOOST_TEST(outcome.reason.find("rank 1 had others, after step 0") == 0u, outcome.reason);
  }
}

BOOST_AUTO_TEST_CASE(the_last_step_is_saved_then_the_run_ends_with_0) {
  Driver driver(test::small_run());
  driver.start();
  for (std::int64_t step = 1; step < 4; ++step) driver.prepared(step);
  const auto last = driver.prepared(4);
  BOOST_REQUIRE(find<OrderSave>(last));
  BOOST_TEST(find<OrderSave>(last)->step == 4);
  BOOST_TEST(find<PublishCheckpoint>(driver.saved(4)));
  BOOST_TEST(find<Finish>(driver.on(Published{.step = 4})));
  const Outcome outcome = end_of(driver);
  BOOST_TEST(outcome.exit_code == 0);
  BOOST_TEST(outcome.step == 4);
}

BOOST_AUTO_TEST_CASE(checkpoints_come_at_the_interval_and_initially_and_nothing_waits_for_them) {
  RunSpec spec = test::small_run();
  spec.checkpoint = {.interval = 2, .initial = true};
  Driver driver(spec);
  const auto first = driver.start();
  BOOST_TEST(find<OrderSave>(first)->step == 0);
  BOOST_TEST(find<OrderStep>(first)->step == 1);
  BOOST_TEST(find<PublishCheckpoint>(driver.saved(0)));
  BOOST_TEST(driver.on(Published{.step = 0}).empty());
  BOOST_TEST(!find<OrderSave>(driver.prepared(1)));
  const auto second = driver.prepared(2);
  BOOST_TEST(find<OrderSave>(second)->step == 2);
  BOOST_TEST(find<OrderStep>(second)->step == 3);
}

BOOST_AUTO_TEST_CASE(a_checkpoint_that_is_due_waits_for_the_one_under_way) {
  RunSpec spec = test::small_run();
  spec.checkpoint.interval = 1;
  Driver driver(spec);
  driver.start();
  BOOST_TEST(find<OrderSave>(driver.prepared(1)));
  BOOST_TEST(find<OrderStep>(driver.prepared(2)) == nullptr);
  driver.saved(1);
  const auto effects = driver.on(Published{.step = 1});
  BOOST_REQUIRE(find<OrderSave>(effects));
  BOOST_TEST(find<OrderSave>(effects)->step == 2);
  BOOST_TEST(find<OrderStep>(effects)->step == 3);
}

BOOST_AUTO_TEST_CASE(evaluation_follows_the_step_and_reports_the_mean) {
  RunSpec spec = test::small_run();
  spec.eval = {.interval = 1, .steps = 2, .sets = {{.samples = 2 * spec.batch.global}}};
  Driver driver(spec);
  driver.start();
  BOOST_TEST(find<Evaluate>(driver.prepared(1)));
  driver.on(ReplicaEvaluated{.configuration = 1, .step = 1, .batch = 0, .loss_sum = 256});
  const auto effects =
      driver.on(ReplicaEvaluated{.configuration = 1, .step = 1, .batch = 1, .loss_sum = 256});
  BOOST_REQUIRE(find<ReportEvaluation>(effects));
  BOOST_TEST(find<ReportEvaluation>(effects)->losses.at(0) == 512.0 / (2 * 128));
  BOOST_TEST(find<OrderStep>(effects)->step == 2);
}

BOOST_AUTO_TEST_CASE(an_evaluation_ends_with_its_samples) {
  RunSpec spec = test::small_run();
  const std::int64_t seq_len = spec.batch.seq_len;
  spec.eval = {.interval = 1, .steps = 9, .sets = {{.samples = spec.batch.global + 1}}};
  Driver driver(spec);
  driver.start();
  driver.prepared(1);
  driver.on(ReplicaEvaluated{.configuration = 1, .step = 1, .batch = 0, .loss_sum = 100});
  const auto effects =
      driver.on(ReplicaEvaluated{.configuration = 1, .step = 1, .batch = 1, .loss_sum = 20});
  BOOST_REQUIRE(find<ReportEvaluation>(effects));
  BOOST_TEST(find<ReportEvaluation>(effects)->losses.at(0) ==
             120.0 / static_cast<double>((spec.batch.global + 1) * seq_len));
  BOOST_TEST(!find<Evaluate>(effects));
}

BOOST_AUTO_TEST_CASE(sets_are_evaluated_one_after_the_other_and_reported_together) {
  RunSpec spec = test::small_run();
  const auto global = spec.batch.global;
  spec.eval = {.interval = 1,
               .steps = 2,
               .sets = {{.name = "a", .samples = 9 * global}, {.name = "b", .samples = 1}}};
  BOOST_TEST(spec.eval.batches(global) == 3);
  Driver driver(spec);
  driver.start();
  driver.prepared(1);
  const auto answer = [&](std::int64_t batch, double loss_sum) {
    return driver.on(
        ReplicaEvaluated{.configuration = 1, .step = 1, .batch = batch, .loss_sum = loss_sum});
  };
  answer(0, 256);
  answer(1, 512);
  const auto effects = answer(2, 48);
  BOOST_REQUIRE(find<ReportEvaluation>(effects));
  const auto seq_len = static_cast<double>(spec.batch.seq_len);
  const std::vector<double> expected{768.0 / (2 * static_cast<double>(global) * seq_len),
                                     48.0 / seq_len};
  BOOST_TEST(find<ReportEvaluation>(effects)->losses == expected, boost::test_tools::per_element());
  BOOST_TEST(find<OrderStep>(effects)->step == 2);
}

BOOST_AUTO_TEST_CASE(the_last_step_is_evaluated_too) {
  RunSpec spec = test::small_run();
  spec.eval = {.interval = 4, .steps = 1, .sets = {{.samples = spec.batch.global}}};
  Driver driver(spec);
  driver.start();
  for (std::int64_t step = 1; step <= 4; ++step) driver.prepared(step);
  driver.saved(4);
  BOOST_TEST(find<Evaluate>(driver.on(Published{.step = 4})));
  BOOST_TEST(find<Finish>(driver.on(
      ReplicaEvaluated{.configuration = driver.configuration(), .step = 4, .loss_sum = 1})));
}

BOOST_AUTO_TEST_CASE(stop_finishes_the_step_saves_and_ends_with_0) {
  Driver driver(test::small_run());
  driver.start();
  driver.prepared(1);
  BOOST_TEST(driver.on(StopOrdered{.reason = "SIGTERM"}).empty());
  BOOST_TEST(find<OrderSave>(driver.prepared(2))->step == 2);
  driver.saved(2);
  BOOST_TEST(find<Finish>(driver.on(Published{.step = 2})));
  const Outcome outcome = end_of(driver);
  BOOST_TEST(outcome.exit_code == 0);
  BOOST_TEST(outcome.reason == "SIGTERM");
}

BOOST_AUTO_TEST_CASE(stop_now_kills_and_ends_with_75) {
  Driver driver(test::small_run(2));
  driver.start();
  BOOST_TEST(find<KillWorkers>(driver.on(StopNowOrdered{.reason = "a second SIGTERM"})));
  BOOST_TEST(end_of(driver).exit_code == 75);
}

WorkerFailed symptom_of(Driver& driver, int rank, const std::string& message) {
  return {.incarnation = driver.workers.at(rank),
          .configuration = driver.configuration(),
          .kind = ErrorKind::unavailable,
          .message = message,
          .symptom = true,
          .now_s = 1};
}

BOOST_AUTO_TEST_CASE(a_death_is_the_cause_even_if_its_symptom_comes_first) {
  Driver driver(that_stops(test::small_run(2)));
  driver.start();
  const auto symptom = driver.on(symptom_of(driver, 0, "no answer from rank 1"));
  BOOST_TEST(find<StartTimer>(symptom));
  BOOST_TEST(!find<Finish>(symptom));
  BOOST_TEST(find<Finish>(driver.on(driver.exited(1, false))));
  driver.on(driver.exited(0));
  BOOST_TEST((driver.protocol.phase() == Phase::ended));
}

BOOST_AUTO_TEST_CASE(the_outcome_names_the_first_cause_once) {
  Driver driver(that_stops(test::small_run(2)));
  driver.start();
  driver.on(driver.exited(1, false));
  const auto effects = driver.on(driver.exited(0, false));
  const End* end = find<End>(effects);
  BOOST_REQUIRE(end);
  BOOST_TEST(end->outcome.exit_code == 70);
  BOOST_TEST(end->outcome.reason == "rank 1 (replica 0, stage 1) ended by signal 9 (SIGKILL)");
}

BOOST_AUTO_TEST_CASE(a_symptom_without_a_cause_is_the_cause) {
  Driver driver(that_stops(test::small_run(2)));
  driver.start();
  const auto effects = driver.on(symptom_of(driver, 0, "waited 600 s for rank 1"));
  driver.on(TimerRang{.timer = find<StartTimer>(effects)->timer, .now_s = 1});
  const Outcome outcome = end_of(driver);
  BOOST_TEST(outcome.exit_code == 70);
  BOOST_TEST(outcome.reason.find("waited 600 s for rank 1") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(workers_that_do_not_join_or_end_are_not_waited_for_for_ever) {
  Driver driver(test::small_run(2));
  const auto effects = driver.on(Started{});
  driver.on(driver.joined(0));
  const auto late = driver.on(TimerRang{.timer = find<StartTimer>(effects)->timer});
  BOOST_REQUIRE(find<Finish>(late));
  const auto killed = driver.on(TimerRang{.timer = find<StartTimer>(late)->timer});
  BOOST_TEST(find<KillWorkers>(killed));
  const Outcome outcome = end_of(driver);
  BOOST_TEST(outcome.exit_code == 70);
  BOOST_TEST(outcome.reason.find("rank 1") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_worker_that_refuses_the_users_data_keeps_its_exit_code) {
  Driver driver(test::small_run());
  driver.on(Started{});
  driver.on(driver.joined(0));
  driver.on(WorkerFailed{.incarnation = driver.workers.at(0),
                         .configuration = driver.configuration(),
                         .kind = ErrorKind::data,
                         .message = "the checkpoint is torn"});
  BOOST_TEST(end_of(driver).exit_code == 65);
}

BOOST_AUTO_TEST_CASE(a_stale_incarnation_neither_joins_nor_dies) {
  Driver driver(test::small_run());
  driver.on(Started{});
  BOOST_TEST(driver.on(MemberJoined{.member = {.id = 0, .incarnation = 5}}).empty());
  BOOST_TEST(driver.on(WorkerExited{.incarnation = 5}).empty());
}

BOOST_AUTO_TEST_CASE(a_finished_checkpoint_is_not_saved_again) {
  Driver driver(test::small_run(), 4, 4);
  BOOST_TEST(find<Finish>(driver.start()));
  BOOST_TEST(end_of(driver).step == 4);
}

BOOST_AUTO_TEST_CASE(a_run_that_loses_too_many_workers_in_an_hour_ends_with_75) {
  RunSpec spec = test::small_run(2, 1);
  spec.recovery.restarts_per_hour = 5;
  Driver driver(spec);
  driver.start();
  driver.prepared(1);
  int losses = 0;
  for (; driver.protocol.phase() != Phase::ending && losses < 1000; losses += 2) {
    // Both at once, time and again: they start from what the run started from.
    for (const int rank : {0, 1}) driver.on(driver.exited(rank, false));
    if (driver.protocol.phase() == Phase::ending) break;
    for (const int rank : {0, 1}) driver.on(driver.joined(rank));
    driver.ready();
    driver.prepared(1);
  }
  BOOST_TEST(losses <= 5 + 10 + 1);
  const Outcome outcome = end_of(driver);
  BOOST_TEST(outcome.exit_code == 75);
  BOOST_TEST(outcome.reason.find("restarts_per_hour = 5") != std::string::npos, outcome.reason);
}

BOOST_AUTO_TEST_CASE(any_number_of_worker_failures_may_be_allowed) {
  RunSpec spec = test::small_run(2, 1);
  spec.recovery.restarts_per_hour = std::numeric_limits<int>::max();
  Driver driver(spec);
  driver.start();
  BOOST_TEST(find<OrderHalt>(driver.on(driver.exited(1, false))));
}

BOOST_AUTO_TEST_CASE(a_checkpoint_that_cannot_be_written_costs_no_training) {
  RunSpec spec = test::small_run();
  spec.checkpoint.interval = 2;
  Driver driver(spec);
  driver.start();
  driver.prepared(1);
  BOOST_TEST(find<OrderStep>(driver.prepared(2))->step == 3);
  // The publisher of checkpoints removes what was written of it.
  BOOST_TEST(find<PublishCheckpoint>(driver.saved(2, "no space left"))->error == "no space left");
  BOOST_TEST(find<ReportUnsaved>(driver.on(Published{.step = 2, .error = "no space left"})));
  driver.prepared(3);
  driver.prepared(4);
  driver.saved(4, "no space left");
  const auto last = driver.on(Published{.step = 4, .error = "no space left"});
  BOOST_TEST(find<StartTimer>(last));  // after which it is tried again
  BOOST_TEST(!find<Finish>(last));
}

BOOST_AUTO_TEST_CASE(a_run_does_not_end_while_a_checkpoint_is_published) {
  RunSpec spec = test::small_run();
  spec.checkpoint.interval = 2;
  Driver driver(spec);
  driver.start();
  driver.prepared(1);
  driver.prepared(2);
  BOOST_TEST(find<PublishCheckpoint>(driver.saved(2)));
  BOOST_TEST(find<AbandonCheckpoint>(driver.on(StopNowOrdered{.reason = "stopped"})));
  for (int rank = 0; rank < spec.num_ranks(); ++rank)
    BOOST_TEST(!find<End>(driver.on(driver.exited(rank))));
  BOOST_TEST(find<End>(driver.on(Published{.step = 2})));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::actors
