#pragma once

#include <algorithm>
#include <vector>

#include "actors/messages/messages.h"
#include "actors/topology/configuration.h"
#include "schedules/analysis/simulate.h"
#include "tensor/errors/error.h"

namespace troupe::test {

/// The traces that the ranks would send for a step whose actions took as long as the costs say.
inline std::vector<actors::TracedActions> traces_of(const actors::RunSpec& spec,
                                                    const actors::Configuration& configuration,
                                                    std::int64_t step,
                                                    const schedules::Costs& costs) {
  const schedules::Plan plan = actors::make_plan(actors::with_shape(spec, configuration.shape));
  const auto times = schedules::simulate(plan, costs)->times;
  const auto chunks = schedules::chunk_costs(plan, costs);
  const auto rank_of = [&](int chunk, int rank) {
    return rank - actors::place_of(configuration.shape.mesh, rank).stage +
           plan.rank_of_chunk[static_cast<std::size_t>(chunk)];
  };
  std::vector<actors::TracedActions> messages;
  for (int rank = 0; rank < configuration.num_ranks(); ++rank) {
    const auto stage =
        static_cast<std::size_t>(actors::place_of(configuration.shape.mesh, rank).stage);
    actors::TracedActions message{
        .configuration = configuration.number, .step = step, .rank = rank, .body = {}};
    double free_since = 0;
    for (std::size_t i = 0; i < plan.actions[stage].size(); ++i) {
      const auto& action = plan.actions[stage][i];
      const auto& [begin, end] = times[stage][i];
      const bool forward = action.op == schedules::Op::F;
      const bool receives = action.op != schedules::Op::W &&
                            !(forward ? plan.is_first(action.chunk) : plan.is_last(action.chunk));
      const auto& costs_of_chunk = chunks[static_cast<std::size_t>(action.chunk)];
      message.body.actions.push_back(
          {.name = schedules::to_string(action),
           .queued_s = begin,
           .begin_s = begin,
           .end_s = end,
           .from = receives ? rank_of(action.chunk + (forward ? -1 : 1), rank) : -1,
           .waited_s = std::max(0.0, begin - free_since),
           .collective_s = schedules::collective(costs_of_chunk, action.op),
           .sent_s = end,
           .busy_s = schedules::computation(costs_of_chunk, action.op)});
      free_since = end;
    }
    message.body.complete = true;
    messages.push_back(std::move(message));
  }
  return messages;
}

}  // namespace troupe::test
