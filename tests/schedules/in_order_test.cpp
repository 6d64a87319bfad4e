#include "tests/schedules/orders.h"

BOOST_AUTO_TEST_SUITE(in_order_test)

using namespace troupe::schedules;

BOOST_AUTO_TEST_CASE(descending_backwards_split_into_i_and_a_later_w) {
  // Breadth-first looping: each chunk's backwards take the microbatches in reverse.
  const Plan plan =
      in_order(plan_of("0F0,0F1,0F2,2F0,2F1,2F2,2B2,2B1,2B0,0B2,0B1,0B0\n"
                       "1F0,1F1,1F2,3F0,3F1,3F2,3B2,3B1,3B0,1B2,1B1,1B0\n"));
  BOOST_TEST(order(plan, 0) == "0F0 0F1 0F2 2F0 2F1 2F2 2I2 2I1 2B0 2W1 2W2 0I2 0I1 0B0 0W1 0W2");
  BOOST_TEST(rule_broken(plan) == "");
}

BOOST_AUTO_TEST_CASE(a_gap_delays_only_what_comes_after_it) {
  const Plan plan = in_order(plan_of("0F0,0F1,0F2,0F3,0B0,0B2,0B1,0B3"));
  BOOST_TEST(order(plan, 0) == "0F0 0F1 0F2 0F3 0B0 0I2 0B1 0W2 0B3");
}

BOOST_AUTO_TEST_CASE(weight_gradients_of_the_users_own_move_back_too) {
  const Plan plan = in_order(plan_of("0F0,0F1,0F2,0I0,0I1,0I2,0W2,0W0,0W1"));
  BOOST_TEST(order(plan, 0) == "0F0 0F1 0F2 0I0 0I1 0I2 0W0 0W1 0W2");
  const Plan mixed = in_order(plan_of("0F0,0F1,0I1,0B0,0W1"));
  BOOST_TEST(order(mixed, 0) == "0F0 0F1 0I1 0B0 0W1");
}

BOOST_AUTO_TEST_CASE(plans_in_order_stay_as_they_are) {
  for (const Plan& plan : {make("gpipe", {.stages = 3, .microbatches = 5}),
                           make("1f1b", {.stages = 3, .microbatches = 5}),
                           make("interleaved", {.stages = 3, .chunks = 2, .microbatches = 6}),
                           make("forward-only", {.stages = 3, .chunks = 2, .microbatches = 5})}) {
    BOOST_TEST(in_order(plan) == plan);
  }
}

BOOST_AUTO_TEST_CASE(broken_plans_lose_no_action) {
  const Plan missing_first = in_order(plan_of("0F0,0F1,0F2,0B2,0B1"));
  BOOST_TEST(order(missing_first, 0) == "0F0 0F1 0F2 0I2 0I1 0W1 0W2");
  const Plan twice = in_order(plan_of("0F0,0F1,0B1,0B1,0B0,0B0"));
  BOOST_TEST(order(twice, 0) == "0F0 0F1 0I1 0I1 0B0 0W1 0W1 0B0");
}

BOOST_AUTO_TEST_SUITE_END()
