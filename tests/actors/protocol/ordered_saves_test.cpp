#include <boost/test/unit_test.hpp>

#include "actors/protocol/protocol.h"
#include "tests/support/protocol_driver.h"
#include "tests/support/run_specs.h"

// Tests of orders of a checkpoint: of which step it is, and what is answered when.

namespace troupe::actors {

BOOST_AUTO_TEST_SUITE(ordered_saves_test)

namespace {

/// The answer among the effects, which must be there.
AnswerSave answer_in(const std::vector<Effect>& effects) {
  const auto* answer = find<AnswerSave>(effects);
  BOOST_REQUIRE(answer);
  return *answer;
}

bool is_refused(const std::vector<Effect>& effects, std::uint64_t order, ErrorKind kind,
                const std::string& why) {
  const AnswerSave answer = answer_in(effects);
  return answer.order == order && answer.kind == kind &&
         answer.refused.find(why) != std::string::npos;
}

}  // namespace

BOOST_AUTO_TEST_CASE(an_ordered_checkpoint_is_of_the_next_step_and_of_no_other) {
  Driver driver(test::small_run());
  driver.start();
  BOOST_TEST(driver.on(SaveOrdered{.order = 5}).empty());
  const auto effects = driver.prepared(1);
  BOOST_REQUIRE(find<OrderSave>(effects));
  BOOST_TEST(find<OrderSave>(effects)->step == 1);
  BOOST_TEST(find<OrderStep>(effects)->step == 2);
  BOOST_TEST(!find<AnswerSave>(driver.saved(1)));
  const AnswerSave answer = answer_in(driver.on(Published{.step = 1}));
  BOOST_TEST(answer.order == 5u);
  BOOST_TEST(answer.step == 1);
  BOOST_TEST(answer.refused == "");
  BOOST_TEST(!find<OrderSave>(driver.prepared(2)));
}

BOOST_AUTO_TEST_CASE(a_checkpoint_that_is_due_anyway_serves_the_order) {
  RunSpec spec = test::small_run();
  spec.checkpoint.interval = 1;
  Driver driver(spec);
  driver.start();
  driver.on(SaveOrdered{.order = 5});
  driver.prepared(1);
  driver.saved(1);
  BOOST_TEST(answer_in(driver.on(Published{.step = 1})).step == 1);
}

BOOST_AUTO_TEST_CASE(one_checkpoint_is_ordered_at_a_time) {
  Driver driver(test::small_run());
  driver.start();
  driver.on(SaveOrdered{.order = 5});
  BOOST_TEST(is_refused(driver.on(SaveOrdered{.order = 6}), 6, ErrorKind::retry,
                        "has been ordered already"));
  driver.prepared(1);
  BOOST_TEST(is_refused(driver.on(SaveOrdered{.order = 7}), 7, ErrorKind::retry,
                        "the checkpoint of step 1 is being written"));
  driver.saved(1);
  BOOST_TEST(answer_in(driver.on(Published{.step = 1})).order == 5u);
  BOOST_TEST(driver.on(SaveOrdered{.order = 8}).empty());
}

BOOST_AUTO_TEST_CASE(an_order_during_another_checkpoint_is_refused) {
  RunSpec spec = test::small_run();
  spec.checkpoint.interval = 1;
  Driver driver(spec);
  driver.start();
  driver.prepared(1);
  BOOST_TEST(is_refused(driver.on(SaveOrdered{.order = 5}), 5, ErrorKind::retry,
                        "the checkpoint of step 1 is being written"));
}

BOOST_AUTO_TEST_CASE(an_order_whose_checkpoint_cannot_be_written_is_told_why) {
  Driver driver(test::small_run());
  driver.start();
  driver.on(SaveOrdered{.order = 5});
  driver.prepared(1);
  driver.saved(1, "no space");
  BOOST_TEST(is_refused(driver.on(Published{.step = 1, .error = "no space"}), 5,
                        ErrorKind::internal, "step 1 could not be saved: no space"));
  BOOST_TEST(!find<OrderSave>(driver.prepared(2)));
}

BOOST_AUTO_TEST_CASE(an_order_outlives_the_loss_of_a_worker) {
  Driver driver(test::small_run(2));
  driver.start();
  driver.on(SaveOrdered{.order = 5});
  BOOST_REQUIRE(find<OrderSave>(driver.prepared(1)));
  driver.on(driver.exited(1, false));  // what is written of step 1 is given up
  driver.on(driver.joined(1));
  for (const int rank : {1, 0}) driver.on(driver.halted(rank, 2, {.step = rank == 0 ? 1 : -1}));
  driver.ready();
  const std::int64_t next = driver.protocol.committed() + 1;
  BOOST_REQUIRE(find<OrderSave>(driver.prepared(next)));
  driver.saved(next);
  const AnswerSave answer = answer_in(driver.on(Published{.step = next}));
  BOOST_TEST(answer.refused == "");
  BOOST_TEST(answer.step == next);
}

BOOST_AUTO_TEST_CASE(the_last_checkpoint_of_a_stopped_run_serves_the_order) {
  Driver driver(test::small_run());
  driver.start();
  driver.on(SaveOrdered{.order = 5});
  driver.on(StopOrdered{.reason = "SIGTERM"});
  BOOST_TEST(is_refused(driver.on(SaveOrdered{.order = 6}), 6, ErrorKind::unavailable,
                        "the run is ending at step 0"));
  driver.prepared(1);
  driver.saved(1);
  const AnswerSave answer = answer_in(driver.on(Published{.step = 1}));
  BOOST_TEST(answer.order == 5u);
  BOOST_TEST(answer.refused == "");
}

BOOST_AUTO_TEST_CASE(an_order_that_the_end_overtakes_is_told_of_it) {
  Driver driver(test::small_run());
  driver.start();
  driver.on(SaveOrdered{.order = 5});
  BOOST_TEST(is_refused(driver.on(StopNowOrdered{.reason = "SIGINT"}), 5, ErrorKind::unavailable,
                        "the run ended at step 0: SIGINT"));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::actors
