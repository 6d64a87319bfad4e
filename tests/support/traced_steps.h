#pragma once

#include <algorithm>
#include <vector>

#include "actors/messages/messages.h"
#include "actors/topology/configuration.h"
#include "schedules/analysis/simulate.h"
#include "tensor/error.h"

namespace troupe::test {

/// The traces that the ranks would send for a step whose actions took as long as the costs say.
inline std::vector<actors::TracedActions> traces_of(const actors::RunSpec& spec,
                                                    const actors::Configuration& configuration,
                                                    std::int64_t step,
                                                    const schedules::Costs& costs) {
  actors::RunSpec changed = spec;
  changed.mesh = configuration.shape.mesh;
  changed.schedule = configuration.shape.schedule;
  const schedules::Plan plan = actors::make_plan(changed);
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
        .configuration = configuration.number, .step = step, .rank = rank};
    double free_since = 0;
    for (std::size_t i = 0; i < plan.actions[stage].size(); ++i) {
      const auto& action = plan.actions[stage][i];
      const auto& [begin, end] = times[stage][i];
      const bool forward = action.op == schedules::Op::F;
      const bool receives = action.op != schedules::Op::W &&
                            !(forward ? plan.is_first(action.chunk) : plan.is_last(action.chunk));
      message.rows.push_back(
          {.name = schedules::to_string(action),
           .begin_s = actors::to_bits(begin),
           .end_s = actors::to_bits(end),
           .sent_s = actors::to_bits(end),
           .busy_s = actors::to_bits(
               schedules::computation(chunks[static_cast<std::size_t>(action.chunk)], action.op)),
           .collective_s = actors::to_bits(
               schedules::collective(chunks[static_cast<std::size_t>(action.chunk)], action.op)),
           .waited_s = actors::to_bits(std::max(0.0, begin - free_since)),
           .from = receives ? rank_of(action.chunk + (forward ? -1 : 1), rank) : -1});
      free_since = end;
    }
    message.complete = true;
    messages.push_back(std::move(message));
  }
  return messages;
}

}  // namespace troupe::test
