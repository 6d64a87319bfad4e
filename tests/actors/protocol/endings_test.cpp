#include <boost/test/unit_test.hpp>
#include <limits>
#include <utility>

#include "actors/protocol/protocol.h"
#include "tests/support/protocol_driver.h"
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
  BOOST_TEST(!find<OrderFinish>(refused));
  driver.saved(1);
  BOOST_TEST(find<OrderFinish>(driver.on(Published{.step = 1})));
  const Outcome outcome = end_of(driver);
  BOOST_TEST(outcome.exit_code == 70);
  BOOST_TEST(outcome.step == 1);
  for (const std::string& part :
       {std::string("step 2 was not committed"), checkpoint_path(driver.spec, 1)})
    BOOST_TEST(outcome.reason.find(part) != std::string::npos, outcome.reason);
}

BOOST_AUTO_TEST_CASE(why_the_step_before_one_that_is_not_finite_was_not_saved_is_told) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const auto& [event, why] :
       {std::pair<Event, std::string>{Published{.step = 1, .error = "the disk is full"},
                                      "the disk is full"},
        {StopNowOrdered{.reason = "a second signal"}, "a second signal"},
        {DirectorFailed{.message = "no memory"}, "no memory"}}) {
    Driver driver(test::small_run());
    driver.start();
    driver.prepared(1);
    driver.prepared(2, nan);
    driver.on(event);
    const Outcome outcome = end_of(driver);
    BOOST_TEST(outcome.exit_code == 70);
    for (const std::string& part :
         {std::string("step 2 was not committed"), "step 1 could not be saved: " + why})
      BOOST_TEST(outcome.reason.find(part) != std::string::npos, outcome.reason);
  }
}

BOOST_AUTO_TEST_CASE(a_stop_orders_no_more_of_an_evaluation) {
  RunSpec spec = test::small_run(1, 2);
  spec.eval = {.interval = 1, .steps = 1000, .samples = 1000 * spec.batch.global};
  Driver driver(spec);
  driver.start();
  const auto evaluates = [&](std::int64_t batch) {
    return driver.by_replicas([&](int r) {
      return Event{ReplicaEvaluated{.epoch = 1, .step = 1, .batch = batch, .replica = r}};
    });
  };
  BOOST_TEST(driver.prepared(1).size() == 3u);  // the commit and two batches
  BOOST_REQUIRE(find<OrderEvaluate>(evaluates(0)));
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
  spec.eval = {.interval = 1, .steps = 2, .samples = 2 * spec.batch.global};
  Driver driver(spec);
  driver.start();
  driver.prepared(1);
  const auto answer = [&](std::int64_t batch, int replica) {
    return driver.on(ReplicaEvaluated{
        .epoch = 1, .step = 1, .batch = batch, .replica = replica, .loss_sum = 64});
  };
  BOOST_TEST(answer(0, 1).empty());
  BOOST_TEST(answer(1, 1).empty());
  BOOST_TEST(answer(0, 0).empty());
  BOOST_TEST(answer(0, 0).empty());  // again
  const auto last = answer(1, 0);
  BOOST_REQUIRE(find<ReportEvaluation>(last));
  BOOST_TEST(find<ReportEvaluation>(last)->loss == 1.0);
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
  BOOST_TEST(find<OrderFinish>(driver.on(Published{.step = 1})));
  const Outcome outcome = end_of(driver);
  BOOST_TEST(outcome.exit_code == 0);
  BOOST_TEST(outcome.step == 1);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::actors
