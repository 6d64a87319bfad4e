#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <map>
#include <tuple>

#include "schedules/analysis/simulate.h"
#include "schedules/generators/zb_search.h"
#include "tests/schedules/orders.h"
#include "tests/schedules/random_plans.h"
#include "tests/support/seed.h"

BOOST_AUTO_TEST_SUITE(properties_test)

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

/// The cost model in its simplest form: goes over all actions until no start time changes.
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

/// The peak of a schedule, which every rank reaches or only the fullest one.
struct Peak {
  std::string_view kind;
  bool on_every_rank;
  int (*most)(const ScheduleShape& shape, int r);
};

int ahead(const ScheduleShape& s, int r) {
  return 2 * (s.stages - 1 - r) + (s.chunks - 1) * s.stages;
}

const Peak kPeaks[] = {
    {"gpipe", true, [](const ScheduleShape& s, int) { return s.microbatches; }},
    {"1f1b", true, [](const ScheduleShape& s, int r) { return s.stages - r; }},
    {"interleaved", true, [](const ScheduleShape& s, int r) { return ahead(s, r) + 1; }},
    {"combined-1f1b", true, [](const ScheduleShape& s, int r) { return ahead(s, r) + 2; }},
    {"looped-bfs", true, [](const ScheduleShape& s, int) { return s.microbatches * s.chunks; }},
    {"zb-h1", true, [](const ScheduleShape& s, int) { return s.stages; }},
    {"zb-h2", true, [](const ScheduleShape& s, int) { return 2 * s.stages - 1; }},
    {"interleaved-zb", true,
     [](const ScheduleShape& s, int) {
       const int rounds = std::max(1, s.microbatches / s.stages);
       return (s.chunks - 1) * (s.microbatches / rounds) + s.stages;
     }},
    {"zb-v-static", false, [](const ScheduleShape& s, int) { return 2 * s.stages; }},
    {"v-half", true, [](const ScheduleShape& s, int) { return 2 * ((s.stages + 2) / 2); }},
    {"v-min", false, [](const ScheduleShape& s, int) { return 2 * ((s.stages + 4) / 3); }},
    {"dualpipe", true, [](const ScheduleShape& s, int) { return s.stages + 1; }},
    {"dualpipe-v", true, [](const ScheduleShape& s, int) { return 2 * s.stages + 1; }},
    {"chimera", false, [](const ScheduleShape& s, int) { return s.stages; }},
    {"hanayo", false, [](const ScheduleShape& s, int) { return s.stages * s.chunks; }},
};

void check_peaks(const Generator& generator, const ScheduleShape& shape, const Plan& plan,
                 const std::vector<int>& peaks) {
  const int all = shape.microbatches * shape.chunks;
  BOOST_TEST(std::ranges::max(peaks) <= all);
  const int cap = (generator.name == "zb-2p" ? 2 : 1) * shape.stages;
  if (generator.searched)
    BOOST_TEST(std::ranges::max(peak_memory(plan)) <= shape.memory.value_or(cap));
  const auto peak = std::ranges::find(kPeaks, generator.name, &Peak::kind);
  if (peak == std::end(kPeaks) || shape.microbatches < shape.stages) return;
  std::vector<int> most;
  for (int r = 0; r < shape.stages; ++r) most.push_back(std::min(peak->most(shape, r), all));
  if (peak->on_every_rank)
    BOOST_TEST(peaks == most, tt::per_element());
  else
    BOOST_TEST(std::ranges::max(peaks) == std::ranges::max(most));
}

/// Checks every rule, and what must be true of the simulation of any plan.
void check_plan(const Generator& generator, ScheduleShape shape, Random& random) {
  Costs costs{.stages = {}, .hop = 0.1 * pick(random, 0, 9)};
  for (int r = 0; r < shape.stages; ++r) costs.stages.push_back(random_costs(random));
  if (generator.searched) {
    shape.costs = costs;
    shape.memory = pick(random, 1, 3 * shape.stages);
    if (pick(random, 0, 1) || !generator.check(shape).empty()) shape.memory.reset();
  }
  const Plan plan = generator.generate(shape);
  const Plan run = in_order(plan);
  BOOST_TEST(rule_broken(run, generator.purpose) == "");
  BOOST_TEST(plan.kind == generator.name);
  BOOST_TEST(plan.num_copies == generator.copies);
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
  }
  check_peaks(generator, shape, plan, out->peak_activations);
  BOOST_TEST(out->span <= out->wall);
  costs.sends = Sends::blocking;
  const auto blocking = simulate(run, costs);
  BOOST_REQUIRE(blocking.has_value());
  costs.sends = Sends::overlapped;
  BOOST_TEST(blocking->wall >= simulate(run, costs)->wall * (1 - 1e-9));
}

/// All shapes that the schedule accepts with p from `first` to `last` and m from p to 4p.
std::vector<ScheduleShape> shapes_of(const Generator& generator, int first, int last) {
  std::vector<ScheduleShape> shapes;
  for (int p = first; p <= last; ++p)
    for (int m = p; m <= 4 * p; ++m)
      for (int v = 1; v <= 4; ++v) {
        const ScheduleShape shape{.stages = p, .chunks = v, .microbatches = m};
        if (generator.check(shape).empty()) shapes.push_back(shape);
      }
  return shapes;
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_schedule_is_valid_and_ends) {
  const std::uint64_t seed = troupe::test::fresh_seed();
  const int num_larger = troupe::test::number_of("TROUPE_SHAPES", 40);
  Random random(seed);
  for (const Generator& generator : generators()) {
    // zb-auto simulates thousands of plans for each plan that it makes.
    const bool slow = generator.name == "zb-auto";
    auto shapes = shapes_of(generator, 2, slow ? 3 : 6);
    const auto larger = shapes_of(generator, slow ? 4 : 7, 16);
    std::ranges::sample(larger, std::back_inserter(shapes), num_larger / (slow ? 10 : 1), random);
    for (const ScheduleShape& shape : shapes) {
      BOOST_TEST_CONTEXT("TROUPE_TEST_SEED=" << seed << " " << generator.name << " p "
                                             << shape.stages << " v " << shape.chunks << " m "
                                             << shape.microbatches)
      check_plan(generator, shape, random);
    }
  }
}

BOOST_AUTO_TEST_CASE(few_microbatches_and_single_stages_are_valid_too) {
  const std::uint64_t seed = troupe::test::fresh_seed();
  Random random(seed);
  for (const Generator& generator : generators())
    for (const int v : {1, 2, 4})
      for (int p = 1; p <= 5; ++p)
        for (int m = 1; m <= p + 1; ++m) {
          const ScheduleShape shape{.stages = p, .chunks = v, .microbatches = m};
          if (!generator.check(shape).empty()) continue;
          BOOST_TEST_CONTEXT("TROUPE_TEST_SEED=" << seed << " " << generator.name << " p " << p
                                                 << " v " << v << " m " << m)
          check_plan(generator, shape, random);
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

BOOST_AUTO_TEST_SUITE_END()
