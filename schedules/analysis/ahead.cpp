#include "schedules/analysis/ahead.h"

#include <algorithm>
#include <map>
#include <span>

namespace troupe::schedules {
namespace {

bool is_forward(const Action& action) {
  return action.op == Op::F;
}

std::span<const Action> run_ahead(const Plan& plan, int rank) {
  return std::span(plan.actions[static_cast<std::size_t>(rank)])
      .first(static_cast<std::size_t>(actions_ahead(plan, rank)));
}

}  // namespace

int actions_ahead(const Plan& plan, int rank) {
  const auto& order = plan.actions[static_cast<std::size_t>(rank)];
  const auto is_other = [](const Action& action) {
    return !is_forward(action) || action.overlaps_next;  // the other of a pair is a backward
  };
  const auto leading = std::ranges::find_if(order, is_other) - order.begin();
  const auto forwards = std::ranges::count_if(order, is_forward);
  return static_cast<int>(std::max<std::ptrdiff_t>(0, std::min(leading, forwards - 1)));
}

std::vector<int> inputs_ahead(const Plan& plan, int rank) {
  std::map<int, std::span<const Action>> ahead_of;  // by rank
  const auto is_sent_ahead = [&](const Action& input) {
    const int sender = plan.rank_of_chunk[static_cast<std::size_t>(input.chunk)];
    const auto [ahead, is_new] = ahead_of.try_emplace(sender);
    if (is_new) ahead->second = run_ahead(plan, sender);
    return std::ranges::any_of(ahead->second, [&](const Action& action) {
      return action.chunk == input.chunk && action.microbatch == input.microbatch;
    });
  };
  const auto& order = plan.actions[static_cast<std::size_t>(rank)];
  std::vector<int> inputs;
  for (auto i = static_cast<std::size_t>(actions_ahead(plan, rank)); i < order.size(); ++i) {
    const Action& action = order[i];
    if (is_forward(action) && !plan.is_first(action.chunk) &&
        is_sent_ahead({.chunk = action.chunk - 1, .microbatch = action.microbatch}))
      inputs.push_back(static_cast<int>(i));
  }
  return inputs;
}

}  // namespace troupe::schedules
