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

/// Calls `check` for every shape of some schedules with up to 8 stages, 4 chunks and 4p
/// microbatches.
template <typename Check>
void for_each_plan(std::initializer_list<std::string_view> kinds, Check check) {
  for (const std::string_view kind : kinds) {
    const Generator& generator = *find_generator(kind);
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
        const auto [chunk, op, i, overlaps] = plan.actions[rank][k];
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

namespace {

/// What a rank holds at most, where a formula says so; else what it never exceeds.
int most_live(const Generator& generator, const ScheduleShape& shape, int r) {
  const int p = shape.stages, v = shape.chunks, m = shape.microbatches;
  const int ahead = 2 * (p - 1 - r) + (v - 1) * p;
  const std::map<std::string_view, int> most = {{"gpipe", m},
                                                {"1f1b", p - r},
                                                {"interleaved", ahead + 1},
                                                {"combined-1f1b", ahead + 2},
                                                {"zb-h1", p},
                                                {"zb-h2", 2 * p - 1},
                                                {"zb-v-static", 2 * p},
                                                {"v-half", 2 * ((p + 2) / 2)},
                                                {"v-min", 2 * ((p + 4) / 3)},
                                                {"dualpipe", p + 1},
                                                {"dualpipe-v", 2 * p + 1},
                                                {"chimera", p},
                                                {"hanayo", p * v}};
  const auto found = most.find(generator.name);
  return std::min(found == most.end() ? m * v : found->second, m * v);
}

/// Every rule, and what a simulation must say of any plan. The seed makes the costs.
void check_plan(const Generator& generator, const ScheduleShape& shape, int seed) {
  Random random(seed);
  const Plan plan = generator.generate(shape);
  BOOST_TEST(rule_broken(in_order(plan), generator.purpose) == "");
  BOOST_TEST(plan.kind == generator.name);
  BOOST_TEST(plan.num_copies == generator.copies);
  Costs costs{.stages = {}, .hop = 0.1 * pick(random, 0, 9)};
  for (int r = 0; r < shape.stages; ++r) costs.stages.push_back(random_costs(random));
  const auto out = simulate(plan, costs);
  BOOST_REQUIRE(out.has_value());
  const bool forward = generator.purpose == Purpose::forward_only;
  for (int r = 0; r < shape.stages; ++r) {
    const StageCosts& cost = costs.stages[r];
    const double work =
        forward ? cost.forward : cost.forward + cost.input_gradient + cost.weight_gradient;
    BOOST_TEST(out->busy[r] == shape.microbatches * work, tt::tolerance(1e-9));
    const Idle& idle = out->causes[r];
    double sum = idle.warm_up + idle.cool_down + idle.communication;
    for (const auto& [other, time] : idle.waiting) {
      BOOST_TEST(other != r);
      sum += time;
    }
    BOOST_TEST(std::abs(sum - out->idle[r]) < 1e-9 * out->wall);
    BOOST_TEST(out->peak_activations[r] <= most_live(generator, shape, r));
  }
  BOOST_TEST(out->span <= out->wall);
}

/// zb-auto simulates thousands of plans for each that it makes.
int step(const Generator& generator, int p, int m) {
  if (generator.name == "zb-auto") return p;
  return p <= 6 ? 1 : std::max(1, (m % p + 3) % 5);
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_schedule_of_every_shape_is_valid_and_ends) {
  int seed = 0;
  for (const Generator& generator : generators()) {
    for (int p = 2; p <= 16; ++p) {
      // Every number of microbatches up to 6 stages; beyond, those around multiples and some more.
      for (int m = p; m <= 4 * p; m += step(generator, p, m)) {
        for (const int v : {1, 2, 3, 4}) {
          if (v > 2 && p > 8) continue;
          const ScheduleShape shape{.stages = p, .chunks = v, .microbatches = m};
          if (!generator.check(shape).empty()) continue;
          BOOST_TEST_CONTEXT(generator.name << " p " << p << " v " << v << " m " << m << " seed "
                                            << ++seed)
          check_plan(generator, shape, seed);
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(few_microbatches_and_single_stages_are_valid_too) {
  int seed = 0;
  for (const Generator& generator : generators()) {
    for (const int v : {1, 2, 4}) {
      for (int p = 1; p <= 5; ++p) {
        for (int m = 1; m <= p + 1; ++m) {
          const ScheduleShape shape{.stages = p, .chunks = v, .microbatches = m};
          if (!generator.check(shape).empty()) continue;
          BOOST_TEST_CONTEXT(generator.name << " p " << p << " v " << v << " m " << m << " seed "
                                            << ++seed)
          check_plan(generator, shape, seed);
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(wall_times_and_peaks_follow_the_closed_forms) {
  for (int seed = 0; seed < 3; ++seed) {
    Random random(seed);
    BOOST_TEST_CONTEXT("seed " << seed)
    for_each_plan({"gpipe", "1f1b", "interleaved", "forward-only"},
                  [&](const Generator& generator, const ScheduleShape& shape, const Plan& plan) {
                    const int p = shape.stages, v = shape.chunks, m = shape.microbatches;
                    const StageCosts cost = random_costs(random);
                    const auto out = simulate(plan, {.stages = {cost}});
                    BOOST_REQUIRE(out.has_value());
                    const double work =
                        generator.name == "forward-only"
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
