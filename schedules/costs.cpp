#include "schedules/costs.h"

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
          .pair = part(whole.pair)};
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

double duration(const StageCosts& chunk, Op op) {
  switch (op) {
    case Op::F:
      return chunk.forward;
    case Op::I:
      return chunk.input_gradient;
    case Op::W:
      return chunk.weight_gradient;
    case Op::B:
      break;
  }
  return chunk.backward.value_or(chunk.input_gradient + chunk.weight_gradient);
}

double pair_duration(const StageCosts& forward, const StageCosts& backward, Op op) {
  if (!forward.pair) return forward.forward + duration(backward, op);
  return *forward.pair - (duration(backward, Op::B) - duration(backward, op));
}

}  // namespace troupe::schedules
