#include <fmt/format.h>

#include <boost/test/unit_test.hpp>
#include <vector>

#include "actors/protocol/protocol.h"
#include "tests/support/protocol_driver.h"
#include "tests/support/protocol_endings.h"
#include "tests/support/run_specs.h"

// How the protocol saves the last step of a run when a file system fails for some seconds.

namespace troupe::actors {

BOOST_AUTO_TEST_SUITE(last_save_test)

namespace {

RunSpec of_one_step(int pp = 1) {
  RunSpec spec = test::small_run(pp);
  spec.max_steps = 1;
  return spec;
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_last_step_is_saved_again_after_1_2_and_4_seconds) {
  Driver driver(of_one_step());
  driver.start();
  BOOST_REQUIRE(find<OrderSave>(driver.prepared(1)));
  for (const int delay : {1, 2, 4}) {
    const auto failed = fail_save(driver, 1, "I/O error");
    BOOST_REQUIRE(find<ReportUnsaved>(failed));
    BOOST_TEST(find<ReportUnsaved>(failed)->error ==
               fmt::format("I/O error; tried again in {} s", delay));
    BOOST_TEST(!find<Finish>(failed));
    BOOST_TEST(find<StartTimer>(failed)->seconds == delay);
    const auto again = wait_out(driver, failed);
    BOOST_REQUIRE(find<OrderSave>(again));
    BOOST_TEST(find<OrderSave>(again)->step == 1);
  }
  driver.saved(1);
  BOOST_TEST(find<Finish>(driver.on(Published{.step = 1})));
  const Outcome outcome = end_of(driver);
  BOOST_TEST(outcome.exit_code == 0);
  BOOST_TEST(outcome.reason == "finished");
}

BOOST_AUTO_TEST_CASE(a_last_step_that_can_never_be_saved_ends_the_run_after_four_attempts) {
  Driver driver(of_one_step());
  driver.start();
  driver.prepared(1);
  const auto last = fail_every_save(driver, 1, "I/O error");
  BOOST_TEST(find<ReportUnsaved>(last)->error == "I/O error");
  BOOST_TEST(find<Finish>(last));
  BOOST_TEST(end_of(driver).exit_code == 70);
}

BOOST_AUTO_TEST_CASE(a_last_step_whose_weights_are_not_finite_is_not_tried_again) {
  RunSpec spec = test::small_run(1, 2);
  spec.max_steps = 1;
  Driver driver(spec);
  driver.start();
  driver.prepared(1);
  driver.on(ReplicaSaved{.configuration = 1, .step = 1, .replica = 0, .error = "I/O error"});
  const auto answered = driver.on(ReplicaSaved{
      .configuration = 1, .step = 1, .replica = 1, .error = "tensor w is inf", .for_good = true});
  BOOST_REQUIRE(find<PublishCheckpoint>(answered));
  BOOST_TEST(find<PublishCheckpoint>(answered)->error == "tensor w is inf");
  const auto failed = driver.on(Published{.step = 1, .error = "tensor w is inf"});
  BOOST_TEST(find<ReportUnsaved>(failed)->error == "tensor w is inf");
  BOOST_TEST(find<Finish>(failed));
  const Outcome outcome = end_of(driver);
  BOOST_TEST(outcome.exit_code == 70);
  BOOST_TEST(outcome.reason == "finished, but the last step could not be saved: tensor w is inf");
}

BOOST_AUTO_TEST_CASE(a_step_that_could_not_be_saved_is_saved_again_when_a_stop_makes_it_the_last) {
  RunSpec spec = test::small_run();
  spec.checkpoint.interval = 1;
  spec.eval = {.interval = 1, .steps = 1, .sets = {{.samples = spec.batch.global}}};
  Driver driver(spec);
  driver.start();
  driver.prepared(1);
  BOOST_TEST(find<ReportUnsaved>(fail_save(driver, 1, "I/O error"))->error == "I/O error");
  driver.on(StopOrdered{.reason = "SIGTERM"});
  const auto evaluated = driver.on(ReplicaEvaluated{.configuration = 1, .step = 1});
  BOOST_TEST(find<OrderSave>(wait_out(driver, evaluated)));
}

BOOST_AUTO_TEST_CASE(a_second_signal_ends_a_run_that_waits_to_save_again_at_once) {
  Driver driver(test::small_run());
  driver.start();
  driver.on(StopOrdered{.reason = "SIGTERM"});
  driver.prepared(1);
  fail_save(driver, 1, "I/O error");
  const auto stopped = driver.on(StopNowOrdered{.reason = "a second signal"});
  BOOST_TEST(find<Finish>(stopped));
  BOOST_TEST(find<KillWorkers>(stopped));
  BOOST_TEST(end_of(driver).exit_code == 75);
}

BOOST_AUTO_TEST_CASE(an_ordered_checkpoint_of_the_last_step_is_answered_once_it_is_saved) {
  Driver driver(of_one_step());
  driver.start();
  driver.on(SaveOrdered{.order = 5});
  driver.prepared(1);
  const auto failed = fail_save(driver, 1, "I/O error");
  BOOST_TEST(!find<AnswerSave>(failed));
  wait_out(driver, failed);
  driver.saved(1);
  const auto saved = driver.on(Published{.step = 1});
  BOOST_REQUIRE(find<AnswerSave>(saved));
  BOOST_TEST(find<AnswerSave>(saved)->refused == "");
}

BOOST_AUTO_TEST_CASE(a_worker_that_is_lost_while_the_last_step_waits_to_be_saved_costs_nothing) {
  Driver driver(of_one_step(2));
  driver.start();
  driver.prepared(1);
  fail_save(driver, 1, "I/O error");
  const auto lost = driver.on(driver.exited(1, false));
  const StateInventory left{.step = 1, .has_previous = true, .copies = {{.rank = 1, .step = 1}}};
  const auto ready = recover(driver, lost, {{0, left}});
  const Outcome outcome = end_saved(driver, wait_out(driver, ready), 1);
  BOOST_TEST(outcome.exit_code == 0);
}

BOOST_AUTO_TEST_CASE(a_run_that_fails_after_its_step_could_not_be_saved_saves_it_again) {
  RunSpec spec = test::small_run(2);
  spec.checkpoint.interval = 1;
  Driver driver(spec);
  driver.start();
  driver.prepared(1);
  fail_save(driver, 1, "I/O error");
  const auto failed = driver.on(DirectorFailed{.message = "no memory"});
  const auto ready = recover(driver, failed, {{0, {.step = 1}}, {1, {.step = 1}}});
  const Outcome outcome = end_saved(driver, wait_out(driver, ready), 1);
  BOOST_TEST(outcome.exit_code == 70);
  BOOST_TEST(outcome.reason == "no memory");
}

BOOST_AUTO_TEST_CASE(a_failed_run_whose_last_checkpoint_is_published_in_vain_tells_it) {
  RunSpec spec = test::small_run();
  spec.checkpoint.interval = 1;
  Driver driver(spec);
  driver.start();
  driver.prepared(1);
  driver.saved(1);
  BOOST_REQUIRE(find<Finish>(driver.on(DirectorFailed{.message = "no memory"})));
  driver.on(driver.exited(0));
  const auto ended = driver.on(Published{.step = 1, .error = "I/O error"});
  BOOST_REQUIRE(find<End>(ended));
  const Outcome& outcome = find<End>(ended)->outcome;
  BOOST_TEST(outcome.exit_code == 70);
  BOOST_TEST(outcome.reason == "no memory; step 1 could not be saved: I/O error");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::actors
