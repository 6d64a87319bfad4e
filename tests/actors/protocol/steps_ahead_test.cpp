#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <limits>
#include <vector>

#include "tests/support/protocol_endings.h"
#include "tests/support/run_specs.h"

// Steps that the director orders before the one before them is committed.

namespace troupe::actors {

BOOST_AUTO_TEST_SUITE(steps_ahead_test)

namespace {

constexpr double kSmall = 0.25, kClipped = 4;  // squared norms

RunSpec run_ahead(int pp = 2, int dp = 1) {
  RunSpec spec = test::small_run(pp, dp);
  spec.max_steps = 10;
  spec.validation = RunSpec::Validation::post;
  return spec;
}

std::vector<std::int64_t> steps_in(const std::vector<Effect>& effects) {
  std::vector<std::int64_t> steps;
  for (const Effect& effect : effects)
    if (const auto* order = std::get_if<OrderStep>(&effect)) steps.push_back(order->step);
  return steps;
}

std::vector<Effect> copied(Driver& driver, std::int64_t step) {
  return driver.by_replicas([&](int replica) {
    return Event{
        ReplicaCopied{.configuration = driver.configuration(), .step = step, .replica = replica}};
  });
}

using Steps = std::vector<std::int64_t>;

}  // namespace

BOOST_AUTO_TEST_CASE(a_step_is_ordered_ahead_once_the_copies_of_the_state_before_are_held) {
  Driver driver(run_ahead());
  BOOST_TEST((steps_in(driver.start()) == Steps{1}));
  BOOST_TEST((steps_in(copied(driver, 0)) == Steps{2}));
  const auto committed = driver.prepared(1, 128, kSmall);
  BOOST_TEST(find<OrderCommit>(committed)->clip_factor == 1);
  BOOST_TEST(steps_in(committed).empty());          // the second is under way
  BOOST_TEST(steps_in(copied(driver, 0)).empty());  // of a step before: too late
  BOOST_TEST((steps_in(copied(driver, 1)) == Steps{3}));
  driver.prepared(2, 128, kSmall);
  BOOST_TEST(driver.protocol.committed() == 2);
}

BOOST_AUTO_TEST_CASE(where_votes_come_before_copies_steps_follow_commits) {
  Driver driver(run_ahead());
  driver.start();
  BOOST_TEST((steps_in(driver.prepared(1, 128, kSmall)) == Steps{2}));
}

BOOST_AUTO_TEST_CASE(replicas_that_are_copies_of_each_other_tell_of_none) {
  Driver driver(run_ahead(2, 2));
  BOOST_TEST((steps_in(driver.start()) == Steps{1, 2}));
  BOOST_TEST((steps_in(driver.prepared(1, 128, kSmall)) == Steps{3}));
}

BOOST_AUTO_TEST_CASE(one_stage_has_nothing_to_run_ahead) {
  Driver driver(run_ahead(1, 2));
  BOOST_TEST((steps_in(driver.start()) == Steps{1}));
}

BOOST_AUTO_TEST_CASE(no_step_is_ordered_ahead_after_one_that_was_clipped) {
  Driver driver(run_ahead(2, 2));
  driver.start();
  BOOST_TEST(steps_in(driver.prepared(1, 128, kClipped)).empty());  // 2 is under way
  BOOST_TEST((steps_in(driver.prepared(2, 128, kClipped)) == Steps{3}));
  BOOST_TEST((steps_in(driver.prepared(3, 128, kSmall)) == Steps{4, 5}));
}

BOOST_AUTO_TEST_CASE(nothing_runs_ahead_of_what_is_due_after_a_step) {
  RunSpec spec = run_ahead(2, 2);
  spec.checkpoint.interval = 2;
  spec.max_steps = 3;
  Driver driver(spec);
  BOOST_TEST((steps_in(driver.start()) == Steps{1, 2}));
  BOOST_TEST(steps_in(driver.prepared(1, 128, kSmall)).empty());
  const auto second = driver.prepared(2, 128, kSmall);
  BOOST_TEST(find<OrderSave>(second)->step == 2);
  BOOST_TEST((steps_in(second) == Steps{3}));  // and none after the last
}

BOOST_AUTO_TEST_CASE(what_is_ordered_meanwhile_comes_after_the_step_that_is_under_way) {
  Driver driver(run_ahead(2, 2));
  driver.start();
  driver.on(SaveOrdered{.order = 1});
  const auto first = driver.prepared(1, 128, kSmall);
  BOOST_TEST(!find<OrderSave>(first));
  BOOST_TEST(steps_in(first).empty());
  const auto second = driver.prepared(2, 128, kSmall);
  BOOST_TEST(find<OrderSave>(second)->step == 2);
  BOOST_TEST((steps_in(second) == Steps{3, 4}));
  driver.on(StopOrdered{.reason = "a test"});
  driver.saved(2);
  driver.on(Published{.step = 2});
  BOOST_TEST(steps_in(driver.prepared(3, 128, kSmall)).empty());
  BOOST_TEST(end_saved(driver, driver.prepared(4, 128, kSmall), 4).exit_code == 0);
}

BOOST_AUTO_TEST_CASE(a_step_that_is_not_finite_is_taken_back_by_all) {
  Driver driver(run_ahead(2, 2));
  driver.start();
  driver.prepared(1, 128, kSmall);
  const auto refused = driver.prepared(2, 128, std::numeric_limits<double>::infinity());
  BOOST_REQUIRE(find<OrderHalt>(refused));
  BOOST_TEST(!find<OrderHalt>(refused)->halt.reconnect);
  BOOST_TEST(!find<OrderSave>(refused));
  const StateInventory first{.step = 1};
  const auto ready = recover(driver, refused, {{0, first}, {1, first}, {2, first}, {3, first}});
  const Outcome outcome = end_saved(driver, ready, 1);
  BOOST_TEST(outcome.exit_code == 70);
  BOOST_TEST(outcome.reason.find("step 2 was not committed") != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::actors
