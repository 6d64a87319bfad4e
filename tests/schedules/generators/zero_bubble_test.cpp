#include <algorithm>
#include <tuple>

#include "schedules/analysis/simulate.h"
#include "schedules/generators/zb_search.h"
#include "tests/schedules/orders.h"

BOOST_AUTO_TEST_SUITE(zero_bubble_test)

using namespace troupe::schedules;

namespace {

ScheduleShape shape_of(std::string_view costs, int p, int v, int m) {
  return {.stages = p,
          .chunks = v,
          .microbatches = m,
          .costs = std::get<WholeCosts>(parse_costs(costs, v)).costs};
}

Simulation simulated(std::string_view kind, const ScheduleShape& shape) {
  const auto out = simulate(make(kind, shape), shape.costs);
  BOOST_REQUIRE(out.has_value());
  return *out;
}

}  // namespace

BOOST_AUTO_TEST_CASE(zb_h1_runs_a_weight_gradient_once_the_rank_below_may_go_on) {
  const Plan plan = make("zb-h1", {.stages = 3, .microbatches = 4});
  BOOST_TEST(order(plan, 0) == "0F0 0F1 0F2 0I0 0W0 0F3 0I1 0W1 0I2 0W2 0I3 0W3");
  BOOST_TEST(order(plan, 2) == "2F0 2I0 2F1 2I1 2F2 2I2 2W0 2F3 2I3 2W1 2W2 2W3");
}

BOOST_AUTO_TEST_CASE(zb_h2_runs_ahead_twice_as_far) {
  const Plan plan = make("zb-h2", {.stages = 2, .microbatches = 4});
  BOOST_TEST(order(plan, 0) == "0F0 0F1 0F2 0I0 0W0 0F3 0I1 0W1 0I2 0W2 0I3 0W3");
  BOOST_TEST(order(plan, 1) == "1F0 1I0 1F1 1I1 1F2 1I2 1W0 1F3 1I3 1W1 1W2 1W3");
  const std::string wrong = find_generator("zb-h2")->check({.stages = 4, .microbatches = 7});
  BOOST_TEST(wrong.find("is 8") != std::string::npos, wrong);
}

BOOST_AUTO_TEST_CASE(pytorchs_orders) {
  const Plan zero = make("interleaved-zb", {.stages = 2, .chunks = 2, .microbatches = 4});
  BOOST_TEST(order(zero, 0) ==
             "0F0 0F1 2F0 2F1 2I0 2W0 0F2 2I1 2W1 0F3 0I0 0W0 2F2 0I1 0W1 2F3 2I2 2W2 2I3 2W3 0I2 "
             "0W2 0I3 0W3");
  BOOST_TEST(order(zero, 1) ==
             "1F0 1F1 3F0 3I0 3F1 3I1 3W0 1F2 1I0 3W1 1F3 1I1 1W0 3F2 3I2 1W1 3F3 3I3 3W2 1I2 3W3 "
             "1I3 1W2 1W3");
  const Plan v = make("zb-v-static", {.stages = 2, .chunks = 2, .microbatches = 4});
  BOOST_TEST(order(v, 0) ==
             "0F0 0F1 0F2 3F0 3I0 3W0 3F1 3I1 3W1 0F3 0I0 0W0 3F2 3I2 3W2 0I1 0W1 3F3 3I3 3W3 0I2 "
             "0W2 0I3 0W3");
  BOOST_TEST(order(v, 1) ==
             "1F0 2F0 1F1 2F1 2I0 2W0 1F2 1I0 1W0 2F2 2I1 2W1 1F3 1I1 1W1 2F3 2I2 2W2 1I2 2I3 1I3 "
             "1W2 2W3 1W3");
}

BOOST_AUTO_TEST_CASE(one_chunk_of_interleaved_zb_is_zb_h1) {
  for (const int p : {2, 4, 8}) {
    for (const int m : {p, 2 * p, 3 * p}) {
      Plan plan = make("interleaved-zb", {.stages = p, .microbatches = m});
      plan.kind = "zb-h1";
      BOOST_TEST((plan == make("zb-h1", {.stages = p, .microbatches = m})));
    }
  }
}

BOOST_AUTO_TEST_CASE(wall_times_and_spans_of_unit_chunks) {
  struct Row {
    std::string_view kind;
    int p, v, m;
    double wall, span, quarter_hop_wall, uneven_wall;
  };
  for (const Row& row :
       {Row{"looped-bfs", 4, 2, 8, 57, 57, 58.5, 114},
        Row{"interleaved-zb", 4, 1, 8, 27, 27, 30, 60}, Row{"zb-h1", 4, 1, 8, 27, 27, 30, 60},
        Row{"interleaved-zb", 4, 2, 8, 51, 51, 55, 108},
        Row{"zb-v-static", 4, 2, 8, 51, 48, 54.25, 108}}) {
    const bool two = row.v == 2;
    BOOST_TEST_CONTEXT(row.kind) {
      const auto wall = [&](std::string_view costs) {
        const WholeCosts whole = std::get<WholeCosts>(parse_costs(costs, row.v));
        const Plan plan = make(row.kind, {.stages = row.p, .chunks = row.v, .microbatches = row.m});
        return divided(*simulate(plan, whole.costs), whole.units);
      };
      BOOST_TEST(wall(two ? "F=2,I=2,W=2" : "F=1,I=1,W=1").wall == row.wall);
      BOOST_TEST(wall(two ? "F=2,I=2,W=2" : "F=1,I=1,W=1").span == row.span);
      BOOST_TEST(wall(two ? "F=2,I=2,W=2,hop=0.25" : "F=1,I=1,W=1,hop=0.25").wall ==
                 row.quarter_hop_wall);
      BOOST_TEST(wall(two ? "F=4,I=6,W=2" : "F=2,I=3,W=1").wall == row.uneven_wall);
    }
  }
  BOOST_TEST(simulated("zb-v", shape_of("F=2,I=2,W=2", 4, 2, 8)).span == 48 * 2);  // units of 1/2
}

BOOST_AUTO_TEST_CASE(searches_stay_under_their_cap) {
  for (int seed = 0; seed < 40; ++seed) {
    BOOST_TEST_CONTEXT("seed " << seed) {
      const int p = 2 + seed % 7;
      const int m = p + seed;
      const std::string costs =
          "F=" + std::to_string(1 + seed % 5) + ",I=" + std::to_string(1 + seed % 3) +
          ",W=" + std::to_string(1 + seed % 4) + ",hop=" + std::to_string(seed % 2);
      ScheduleShape one = shape_of(costs, p, 1, m);
      for (const double cap : {1.0, 2.5, p / 2.0 + 1, p + 0.0, 1.5 * p, 2.0 * p, 1e9}) {
        one.memory = cap;
        BOOST_TEST(std::ranges::max(peak_memory(make("zb-1p", one))) <= cap);
        BOOST_TEST((make("zb-1p", one).actions == make("zb-2p", one).actions));
      }
      ScheduleShape two = shape_of(costs, p, 2, m);
      for (const double cap : {p + 0.0, 1.5 * p, 1e9}) {
        two.memory = cap;
        BOOST_TEST(std::ranges::max(peak_memory(make("zb-v", two))) <= cap);
      }
    }
  }
  const std::string wrong = find_generator("zb-1p")->check({.memory = 0.5});
  BOOST_TEST(wrong.ends_with("but memory = 0.5; the nearest valid memory is 1"), wrong);
}

BOOST_AUTO_TEST_CASE(no_search_runs_a_forward_before_a_slow_first_stage_did) {
  for (const std::string_view costs :
       {"F=100:1:1:1,I=1:1:50:50,W=1,hop=0", "F=100:1:1:1,I=1,W=1,hop=9", "F=1,I=1:1:1:100,W=1"})
    for (const int m : {3, 4, 9})
      for (const std::string_view kind : {"zb-1p", "zb-2p", "zb-v"}) {
        const int chunks = kind == "zb-v" ? 2 : 1;
        BOOST_TEST(rule_broken(in_order(make(kind, shape_of(costs, 4, chunks, m)))) == "",
                   kind << " of " << m << " for " << costs);
      }
}

BOOST_AUTO_TEST_CASE(zb_auto_is_never_worse_than_what_is_published) {
  for (int seed = 0; seed < 24; ++seed) {
    BOOST_TEST_CONTEXT("seed " << seed) {
      const int p = 2 + seed % 5;
      const int m = p + seed % 9;
      const std::string costs =
          "F=" + std::to_string(3 + seed % 5) + ",I=" + std::to_string(2 + seed % 7) +
          ",W=" + std::to_string(1 + seed % 4) + ",hop=0." + std::to_string(seed % 4);
      for (const double cap : {1.0, p - 0.5, p + 0.0, 2.0 * p}) {
        ScheduleShape one = shape_of(costs, p, 1, m);
        one.memory = cap;
        const Plan best = make("zb-auto", one);
        BOOST_TEST(rule_broken(in_order(best)) == "");
        BOOST_TEST(std::ranges::max(peak_memory(best)) <= cap);
        BOOST_TEST(simulate(best, one.costs)->span <= simulated("zb-1p", one).span);
        if (cap < p) continue;  // the other schedules take more
        for (const std::string_view kind : {"1f1b", "zb-h1"}) {
          BOOST_TEST(simulate(best, one.costs)->span <= simulated(kind, one).span);
        }
        ScheduleShape two = shape_of(costs, p, 2, m);
        two.memory = cap;
        for (const std::string_view kind : {"zb-v", "v-half", "v-min"}) {
          BOOST_TEST(simulated("zb-auto", two).span <= simulated(kind, two).span);
        }
      }
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
