#include <algorithm>
#include <tuple>

#include "schedules/analysis/simulate.h"
#include "tests/schedules/orders.h"

BOOST_AUTO_TEST_SUITE(two_directions_test)

using namespace troupe::schedules;

namespace {

Simulation simulated(const Plan& plan, const StageCosts& costs) {
  const auto out = simulate(plan, {.stages = {costs}});
  BOOST_REQUIRE(out.has_value());
  return *out;
}

constexpr StageCosts kUnit{.forward = 1, .input_gradient = 1, .weight_gradient = 1};

}  // namespace

BOOST_AUTO_TEST_CASE(dualpipe_v_of_2_stages_and_4_microbatches) {
  const Plan plan = make("dualpipe-v", {.stages = 2, .chunks = 2, .microbatches = 4});
  BOOST_TEST(to_csv(plan) ==
             "0F0,0F1,0F2,3F0,3I0,3W0,3F1,(0F3;3B1),(3F2;0B0),3B2,(3F3;0B1),3B3,0I2,0W2,0I3,0W3\n"
             "1F0,2F0,1F1,2F1,1F2,2B0,(2F2;1B0),(1F3;2B1),(2F3;1B1),2B2,1B2,2I3,1I3,2W3,1W3\n");
}

BOOST_AUTO_TEST_CASE(dualpipe_v_takes_what_the_reference_says) {
  const auto stage = [](double f, double i, double w) {
    return StageCosts{.forward = 2 * f, .input_gradient = 2 * i, .weight_gradient = 2 * w};
  };
  const Plan four = make("dualpipe-v", {.stages = 4, .chunks = 2, .microbatches = 8});
  const Simulation out = simulated(four, stage(1, 1, 1));
  BOOST_TEST(out.wall == 54);
  for (const int peak : out.peak_activations) BOOST_TEST(peak == 9);
  BOOST_TEST(simulated(four, stage(2, 3, 1)).wall == 115);
  const Plan two = make("dualpipe-v", {.stages = 2, .chunks = 2, .microbatches = 4});
  BOOST_TEST(simulated(two, stage(1, 1, 1)).wall == 26);
}

/// Each half of DualPipe's ranks runs what DualPipeV's ranks run, over half of the microbatches.
BOOST_AUTO_TEST_CASE(dualpipe_is_dualpipe_v_twice) {
  for (const auto& [p, m] : {std::pair(2, 4), std::pair(4, 8), std::pair(8, 20)}) {
    const Plan dual = make("dualpipe", {.stages = p, .chunks = 2, .microbatches = m});
    const Plan v = make("dualpipe-v", {.stages = p / 2, .chunks = 2, .microbatches = m / 2});
    BOOST_TEST(rule_broken(in_order(dual)) == "");
    for (int r = 0; r < p; ++r) {
      const std::vector<Action>& theirs = v.actions[std::min(r, p - 1 - r)];
      BOOST_REQUIRE(dual.actions[r].size() == theirs.size());
      for (std::size_t k = 0; k < theirs.size(); ++k) {
        BOOST_TEST(static_cast<char>(dual.actions[r][k].op) == static_cast<char>(theirs[k].op));
        BOOST_TEST(dual.actions[r][k].microbatch % (m / 2) == theirs[k].microbatch);
        BOOST_TEST(dual.actions[r][k].overlaps_next == theirs[k].overlaps_next);
      }
    }
    const Simulation both = simulated(dual, kUnit);
    BOOST_TEST(std::ranges::max(both.peak_activations) == p + 1);
    const StageCosts twice{.forward = 2, .input_gradient = 2, .weight_gradient = 2};
    BOOST_TEST(both.wall == simulated(v, twice).wall);  // its stages have two chunks each
  }
}

BOOST_AUTO_TEST_CASE(chimera_has_the_published_bubble) {
  for (const auto& [D, N] :
       {std::pair(2, 2), std::pair(4, 4), std::pair(4, 12), std::pair(8, 8), std::pair(8, 32)}) {
    BOOST_TEST_CONTEXT("D " << D << " N " << N) {
      const Plan plan = make("chimera", {.stages = D, .chunks = 2, .microbatches = N});
      BOOST_TEST(rule_broken(plan) == "");
      const Simulation out =
          simulated(plan, {.forward = 1, .input_gradient = 0.5, .weight_gradient = 0.5});
      BOOST_TEST(out.wall == 2 * N + D - 2);
      BOOST_TEST(std::ranges::max(out.peak_activations) == D);
      BOOST_TEST(std::ranges::min(out.peak_activations) == D / 2 + 1);
    }
  }
}

BOOST_AUTO_TEST_CASE(two_pipelines_need_even_numbers) {
  for (const std::string_view kind : {"dualpipe", "chimera"}) {
    const auto why = [&](int p, int m) {
      return find_generator(kind)->check({.stages = p, .chunks = 2, .microbatches = m});
    };
    for (const auto& [p, m, part] :
         {std::tuple(3, 12, "number of stages is 4"), std::tuple(4, 13, "is 12")}) {
      BOOST_TEST(why(p, m).find(part) != std::string::npos, why(p, m));
      BOOST_TEST(why(p, m).find(kind) != std::string::npos);
    }
  }
}

/// A wave costs a bubble of 2(p-1) chunk slots, whatever the number of chunks.
BOOST_AUTO_TEST_CASE(hanayo_waves_shrink_the_bubble) {
  for (const int p : {2, 3, 4, 8}) {
    for (const int v : {2, 4, 8}) {
      for (const int units : {1, 2, 5}) {
        const int m = units * p;
        const Plan plan = make("hanayo", {.stages = p, .chunks = v, .microbatches = m});
        BOOST_TEST(rule_broken(plan) == "");
        const double slot = v;
        const Simulation out = simulated(
            plan, {.forward = slot, .input_gradient = slot / 2, .weight_gradient = slot / 2});
        BOOST_TEST(out.wall == 2 * v * m + 2 * (p - 1));
        BOOST_TEST(std::ranges::max(out.peak_activations) <= p * v);
      }
    }
  }
  const std::string wrong = find_generator("hanayo")->check({.stages = 2, .chunks = 3});
  BOOST_TEST(wrong.find("nearest valid number of chunks is 4") != std::string::npos, wrong);
}

BOOST_AUTO_TEST_SUITE_END()
