#include <algorithm>

#include "schedules/analysis/simulate.h"
#include "tests/schedules/orders.h"

BOOST_AUTO_TEST_SUITE(v_shapes_test)

using namespace troupe::schedules;

namespace {

/// Costs by which every action of a chunk takes one unit.
constexpr StageCosts kUnit{.forward = 2, .input_gradient = 2, .weight_gradient = 2};

Simulation simulated(std::string_view kind, int p, int m) {
  const auto out =
      simulate(make(kind, {.stages = p, .chunks = 2, .microbatches = m}), {.stages = {kUnit}});
  BOOST_REQUIRE(out.has_value());
  return *out;
}

}  // namespace

BOOST_AUTO_TEST_CASE(chunks_go_forth_and_back_over_the_ranks) {
  const Plan plan = make("v-half", {.stages = 3, .chunks = 2, .microbatches = 3});
  BOOST_TEST(plan.rank_of_chunk == std::vector({0, 1, 2, 2, 1, 0}),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(spans_and_peaks_of_the_authors) {
  const Simulation half = simulated("v-half", 4, 8);
  BOOST_TEST(half.span == 53);
  BOOST_TEST(std::ranges::max(half.peak_activations) == 6);
  const Simulation min = simulated("v-min", 4, 8);
  BOOST_TEST(min.span == 59);
  BOOST_TEST(std::ranges::max(min.peak_activations) == 4);
}

BOOST_AUTO_TEST_CASE(bubbles_and_peaks_follow_the_closed_forms) {
  for (int p = 2; p <= 16; ++p) {
    for (const int m : {2 * p, 3 * p, 4 * p + 1}) {
      BOOST_TEST_CONTEXT("p " << p << " m " << m) {
        const Simulation half = simulated("v-half", p, m);
        const int half_bubble = p == 2 ? 1 : p % 2 == 0 ? 3 * p - 7 : 3 * p - 4;
        BOOST_TEST(half.span == 6 * m + half_bubble);
        BOOST_TEST(std::ranges::max(half.peak_activations) == 2 * ((p + 2) / 2));
        const Simulation min = simulated("v-min", p, m);
        BOOST_TEST(min.span == 6 * m + (p % 3 == 0 ? 4 * p - 7 : 4 * p - 5));
        BOOST_TEST(std::ranges::max(min.peak_activations) == 2 * ((p + 4) / 3));
      }
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
