#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "schedules/analysis/simulate.h"
#include "schedules/generators/families.h"
#include "schedules/generators/zb_search.h"
#include "schedules/plan/counted.h"

namespace troupe::schedules {
namespace {

/// Number of actions that the improvement may simulate, which takes less than a second.
constexpr std::size_t kMostWork = 4'000'000;

/// A plan with its cost: its span, then its wall time, then the idle time of all ranks together.
struct Candidate {
  Plan plan;
  std::array<double, 3> cost;
};

std::optional<std::array<double, 3>> cost_of(const Plan& plan, const Costs& costs, double cap) {
  if (std::ranges::max(peak_memory(plan)) > cap) return {};
  const auto simulation = simulate(plan, costs);
  if (!simulation) return {};
  double ends = 0;
  for (const auto& times : simulation->times) ends += times.back().end - times.front().start;
  return std::array{simulation->span, simulation->wall, ends};
}

/// The best of the published schedules with the shape's number of chunks that stay under the cap.
Candidate best_published(const ScheduleShape& shape, double cap) {
  std::optional<Candidate> best;
  const auto consider = [&](Plan plan) {
    const auto cost = cost_of(plan, shape.costs, cap);
    if (cost && (!best || *cost < best->cost)) best = {std::move(plan), *cost};
  };
  const bool in_v = shape.chunks == 2;
  consider((in_v ? search_v : search_one_chunk)("zb-auto", shape, cap));
  const std::array in_v_by_hand{zb_v_static(), v_half(), v_min()};
  const std::array by_hand{one_f_one_b(), zb_h1(), zb_h2()};
  for (const Generator& known : in_v ? in_v_by_hand : by_hand) {
    if (known.check(shape).empty()) consider(known.generate(shape));
  }
  return std::move(*best);
}

/// Whether an action of a rank may change places with the one after it.
bool may_swap(const Action& first, const Action& second) {
  if (first.chunk != second.chunk) return true;
  if (first.microbatch == second.microbatch) return false;
  return first.op != second.op;  // actions of each kind stay in ascending order
}

/// Swaps neighbours wherever that makes the plan better, until no swap does or kMostWork is used
/// up.
void improve(Candidate& best, const ScheduleShape& shape, double cap) {
  std::size_t size = 0;
  for (const std::vector<Action>& order : best.plan.actions) size += order.size();
  std::size_t tries = kMostWork / std::max<std::size_t>(size, 1);
  for (bool better = true; better;) {
    better = false;
    for (std::vector<Action>& order : best.plan.actions) {
      for (std::size_t i = 0; i + 1 < order.size(); ++i) {
        if (!may_swap(order[i], order[i + 1])) continue;
        if (tries-- == 0) return;
        std::swap(order[i], order[i + 1]);
        const auto cost = cost_of(best.plan, shape.costs, cap);
        if (cost && *cost < best.cost) {
          best.cost = *cost;
          better = true;
        } else {
          std::swap(order[i], order[i + 1]);
        }
      }
    }
  }
}

std::string check(const ScheduleShape& shape) {
  const std::string wrong = check_shape(shape);
  if (!wrong.empty()) return wrong;
  if (shape.chunks > 2) {
    return concat("zb-auto has 1 chunk per stage, or 2 in a V, but chunks = ", shape.chunks,
                  "; the nearest valid number of chunks is 2");
  }
  return check_cap("zb-auto", shape, shape.chunks == 2 ? shape.stages : 1);
}

/// The best of the zero-bubble schedules under the same cap, improved by local search.
Plan generate(const ScheduleShape& shape) {
  const double cap = shape.memory.value_or(shape.stages);
  Candidate best = best_published(shape, cap);
  improve(best, shape, cap);
  best.plan.kind = "zb-auto";
  return std::move(best.plan);
}

}  // namespace

std::vector<double> peak_memory(const Plan& plan) {
  std::vector<int> chunks(plan.num_ranks(), 0);
  for (const int rank : plan.rank_of_chunk) ++chunks[rank];
  std::vector<double> out;
  for (int rank = 0; rank < plan.num_ranks(); ++rank) {
    int now = 0;  // halves of a chunk's microbatch
    int most = 0;
    for (const Action& action : plan.actions[rank]) {
      now += action.op == Op::F ? 2 : action.op == Op::B ? -2 : -1;
      most = std::max(most, now);
    }
    out.push_back(most / 2.0 * plan.num_copies / chunks[rank]);
  }
  return out;
}

Generator zb_auto() {
  return {.name = "zb-auto",
          .source =
              "the best of zb-1p, zb-h1, zb-h2 and 1f1b, or with 2 chunks of zb-v, zb-v-static, "
              "v-half and v-min, improved by swapping neighbours",
          .searched = true,
          .check = check,
          .generate = generate};
}

}  // namespace troupe::schedules
