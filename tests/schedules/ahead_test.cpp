#include "schedules/analysis/ahead.h"

#include <vector>

#include "tests/schedules/orders.h"

BOOST_AUTO_TEST_SUITE(ahead_test)

using namespace troupe::schedules;
namespace tt = boost::test_tools;

namespace {

std::vector<int> ahead_of_ranks(const Plan& plan) {
  std::vector<int> ahead;
  for (int rank = 0; rank < plan.num_ranks(); ++rank) ahead.push_back(actions_ahead(plan, rank));
  return ahead;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_rank_runs_the_forwards_ahead_that_its_order_begins_with) {
  BOOST_TEST(
      ahead_of_ranks(make("1f1b", {.stages = 3, .microbatches = 6})) == std::vector({3, 2, 1}),
      tt::per_element());
  BOOST_TEST(
      ahead_of_ranks(make("zb-h2", {.stages = 3, .microbatches = 6})) == std::vector({5, 3, 1}),
      tt::per_element());
}

BOOST_AUTO_TEST_CASE(a_forward_stays_behind_on_every_rank) {
  BOOST_TEST(ahead_of_ranks(make("gpipe", {.stages = 2, .microbatches = 4})) == std::vector({3, 3}),
             tt::per_element());
  BOOST_TEST(ahead_of_ranks(plan_of("0F0,0B0\n1F0,1B0\n")) == std::vector({0, 0}),
             tt::per_element());
}

BOOST_AUTO_TEST_CASE(a_forward_of_a_pair_does_not_run_ahead) {
  BOOST_TEST(ahead_of_ranks(plan_of("0F0,(0F1;0B0),0F2,0B1,0B2\n")) == std::vector({1}),
             tt::per_element());
}

BOOST_AUTO_TEST_CASE(inputs_that_come_ahead_are_named) {
  // Rank 0 sends microbatches 0 to 2 ahead; rank 1 runs only the first two of them.
  const Plan plan = make("1f1b", {.stages = 3, .microbatches = 6});
  BOOST_TEST(inputs_ahead(plan, 0).empty());
  BOOST_REQUIRE_EQUAL(order(plan, 1).substr(0, 15), "1F0 1F1 1B0 1F2");
  BOOST_TEST(inputs_ahead(plan, 1) == std::vector({3}), tt::per_element());
  BOOST_REQUIRE_EQUAL(order(plan, 2).substr(0, 11), "2F0 2B0 2F1");
  BOOST_TEST(inputs_ahead(plan, 2) == std::vector({2}), tt::per_element());
}

BOOST_AUTO_TEST_SUITE_END()
