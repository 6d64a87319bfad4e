#include <map>
#include <tuple>

#include "schedules/simulate.h"
#include "tests/schedules/orders.h"
#include "tests/schedules/random_plans.h"

using namespace troupe::schedules;
namespace tt = boost::test_tools;

namespace {

StageCosts random_costs(Random& random) {
  std::uniform_real_distribution<double> cost(0.1, 3);
  return {.forward = cost(random), .input_gradient = cost(random), .weight_gradient = cost(random)};
}

/// Calls `check` for every schedule and shape with up to 8 stages, 4 chunks and 4p microbatches.
template <typename Check>
void for_each_plan(Check check) {
  for (const Generator& generator : generators()) {
    for (int p = 1; p <= 8; ++p) {
      for (int v = 1; v <= 4; ++v) {
        for (int m = 1; m <= 4 * p; ++m) {
          const ScheduleShape shape{.stages = p, .chunks = v, .microbatches = m};
          if (!generator.check(shape).empty()) continue;
          BOOST_TEST_CONTEXT(generator.name << " p " << p << " v " << v << " m " << m) {
            check(generator, shape, generator.generate(shape));
          }
        }
      }
    }
  }
}

/// The cost model without cleverness: goes over all actions until no start time changes.
std::vector<std::vector<double>> slow_end_times(const Plan& plan, const Costs& costs) {
  std::map<std::tuple<int, bool, int>, double> results;  // chunk, forward, microbatch
  std::vector<std::vector<double>> ends(plan.num_ranks());
  for (int rank = 0; rank < plan.num_ranks(); ++rank) ends[rank].resize(plan.actions[rank].size());
  const auto chunks_of = [&](int rank) { return std::ranges::count(plan.rank_of_chunk, rank); };
  for (bool changed = true; changed;) {
    changed = false;
    for (int rank = 0; rank < plan.num_ranks(); ++rank) {
      const StageCosts& cost = costs.stages[rank];
      double clock = 0;
      for (std::size_t k = 0; k < ends[rank].size(); ++k) {
        const auto [chunk, op, i] = plan.actions[rank][k];
        const auto from = [&](int other, bool forward) {
          const bool hops = plan.rank_of_chunk[other] != rank;
          return results[{other, forward, i}] + (hops ? costs.hop : 0);
        };
        double start = clock;
        if (op == Op::F && chunk > 0) start = std::max(start, from(chunk - 1, true));
        if (op == Op::B || op == Op::I) {
          const bool last = chunk + 1 == plan.num_chunks();
          start = std::max(start, last ? from(chunk, true) : from(chunk + 1, false));
        }
        double length = op == Op::F ? cost.forward : 0;
        if (op == Op::B || op == Op::I) length += cost.input_gradient;
        if (op == Op::B || op == Op::W) length += cost.weight_gradient;
        clock = start + length / static_cast<double>(chunks_of(rank));
        changed = changed || ends[rank][k] != clock;
        ends[rank][k] = clock;
        if (op != Op::W) results[{chunk, op == Op::F, i}] = clock;
      }
    }
  }
  return ends;
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_plan_is_valid_and_in_order) {
  for_each_plan([](const Generator& generator, const ScheduleShape&, const Plan& plan) {
    const bool forward = generator.name == "forward-only";
    BOOST_TEST(rule_broken(plan, forward ? Purpose::forward_only : Purpose::training) == "");
    BOOST_TEST((in_order(plan) == plan));
    BOOST_TEST(plan.kind == generator.name);
  });
}

BOOST_AUTO_TEST_CASE(wall_times_and_peaks_follow_the_closed_forms) {
  for (int seed = 0; seed < 3; ++seed) {
    Random random(seed);
    BOOST_TEST_CONTEXT("seed " << seed)
    for_each_plan([&](const Generator& generator, const ScheduleShape& shape, const Plan& plan) {
      const auto& [p, v, m] = shape;
      const StageCosts cost = random_costs(random);
      const auto out = simulate(plan, {.stages = {cost}});
      BOOST_REQUIRE(out.has_value());
      const double work = generator.name == "forward-only"
                              ? cost.forward
                              : cost.forward + cost.input_gradient + cost.weight_gradient;
      if (m % p == 0 || v == 1) {
        BOOST_TEST(out->wall == m * work + (p - 1) * work / v, tt::tolerance(1e-9));
      }
      for (int r = 0; r < p; ++r) {
        BOOST_TEST(out->busy[r] == m * work, tt::tolerance(1e-9));
        const int peak = out->peak_activations[r];
        if (generator.name == "gpipe") BOOST_TEST(peak == m);
        if (generator.name == "1f1b") BOOST_TEST(peak == std::min(p - r, m));
        if (generator.name == "interleaved") {
          BOOST_TEST(peak == std::min(2 * (p - 1 - r) + (v - 1) * p + 1, m * v));
        }
      }
    });
  }
}

BOOST_AUTO_TEST_CASE(small_hops_cost_what_the_closed_forms_say) {
  const StageCosts cost{.forward = 1, .input_gradient = 1, .weight_gradient = 1};
  const double hop = 0.01;
  for_each_plan([&](const Generator& generator, const ScheduleShape& shape, const Plan& plan) {
    const auto& [p, v, m] = shape;
    if (p < 2 || m % p != 0) return;
    double hops = 0;
    if (generator.name == "gpipe") hops = 2 * (p - 1);
    if (generator.name == "1f1b") hops = 2.0 * (p - 1) * m / p + 2 * (p - 2);
    if (generator.name == "interleaved") hops = 2 * p * v - 2;
    if (hops == 0) return;
    const auto out = simulate(plan, {.stages = {cost}, .hop = hop});
    BOOST_TEST(out->span == 3.0 * m + 3.0 * (p - 1) / v + hops * hop, tt::tolerance(1e-9));
  });
}

BOOST_AUTO_TEST_CASE(random_plans_get_the_times_of_a_slow_simulator) {
  for (int seed = 0; seed < 300; ++seed) {
    BOOST_TEST_CONTEXT("seed " << seed) {
      Random random(seed);
      const Plan plan = in_order(random_plan(random));
      Costs costs{.stages = {}, .hop = 0.1 * pick(random, 0, 9)};
      for (int r = 0; r < plan.num_ranks(); ++r) costs.stages.push_back(random_costs(random));
      const auto out = simulate(plan, costs);
      BOOST_REQUIRE(out.has_value());
      const auto slow = slow_end_times(plan, costs);
      for (int r = 0; r < plan.num_ranks(); ++r) {
        for (std::size_t k = 0; k < slow[r].size(); ++k) {
          BOOST_TEST(out->times[r][k].end == slow[r][k], tt::tolerance(1e-12));
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(in_order_is_idempotent_and_ascending_for_random_plans) {
  int changed = 0;
  for (int seed = 0; seed < 500; ++seed) {
    BOOST_TEST_CONTEXT("seed " << seed) {
      Random random(seed);
      const Plan plan = random_plan(random);
      const Plan sorted = in_order(plan);
      changed += sorted != plan;
      BOOST_TEST((in_order(sorted) == sorted));
      BOOST_TEST(rule_broken(sorted) == "");
      auto read = parse_csv(to_csv(sorted));
      BOOST_REQUIRE(std::holds_alternative<Plan>(read));
      BOOST_TEST((std::get<Plan>(read) == sorted));
    }
  }
  BOOST_TEST(changed > 100);
}
