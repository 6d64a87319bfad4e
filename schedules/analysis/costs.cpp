#include "schedules/analysis/costs.h"

#include <algorithm>

namespace troupe::schedules {
namespace {

StageCosts divided(const StageCosts& whole, double parts) {
  const auto part = [&](const std::optional<double>& cost) {
    return cost ? std::optional(*cost / parts) : std::nullopt;
  };
  return {.forward = whole.forward / parts,
          .input_gradient = whole.input_gradient / parts,
          .weight_gradient = whole.weight_gradient / parts,
          .backward = part(whole.backward),
          .pair = part(whole.pair),
          .collectives = {.forward = whole.collectives.forward / parts,
                          .input_gradient = whole.collectives.input_gradient / parts,
                          .weight_gradient = whole.collectives.weight_gradient / parts,
                          .backward = part(whole.collectives.backward)},
          .gathers = {.forward = whole.gathers.forward / parts,
                      .backward = whole.gathers.backward / parts}};
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
