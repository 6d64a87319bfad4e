#include "schedules/analysis/costs.h"

#include <algorithm>
#include <type_traits>

namespace troupe::schedules {
namespace {

StageCosts divided(StageCosts costs, double parts) {
  costs.for_each([parts](std::string_view, auto& cost) {
    if constexpr (std::is_same_v<decltype(cost), double&>)
      cost /= parts;
    else if (cost)
      *cost /= parts;
  });
  return costs;
}

/// The part of costs that an action has.
template <typename CostsOfActions>
double part_of(const CostsOfActions& costs, Op op) {
  switch (op) {
    case Op::F:
      return costs.forward;
    case Op::I:
      return costs.input_gradient;
    case Op::W:
      return costs.weight_gradient;
    case Op::B:
      break;
  }
  return costs.backward.value_or(costs.input_gradient + costs.weight_gradient);
}

}  // namespace

std::vector<StageCosts> chunk_costs(const Plan& plan, const Costs& costs) {
  if (!costs.chunks.empty()) return costs.chunks;
  std::vector<int> chunks(plan.num_ranks(), 0);
  for (const int rank : plan.rank_of_chunk) ++chunks[rank];
  std::vector<StageCosts> out;
  for (const int rank : plan.rank_of_chunk) {
    const StageCosts& stage = costs.stages[costs.stages.size() == 1 ? 0 : rank];
    out.push_back(divided(stage, std::max(1.0, 1.0 * chunks[rank] / plan.num_copies)));
  }
  return out;
}

double computation(const StageCosts& chunk, Op op) {
  return part_of(chunk, op);
}

double collective(const StageCosts& chunk, Op op) {
  return part_of(chunk.collectives, op);
}

double duration(const StageCosts& chunk, Op op) {
  return computation(chunk, op) + collective(chunk, op);
}

double pair_duration(const StageCosts& forward, const StageCosts& backward, Op op) {
  if (!forward.pair)
    return std::max({computation(forward, Op::F) + computation(backward, op),
                     duration(forward, Op::F), duration(backward, op)});
  return *forward.pair - (duration(backward, Op::B) - duration(backward, op));
}

}  // namespace troupe::schedules
