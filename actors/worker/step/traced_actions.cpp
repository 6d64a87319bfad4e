#include "actors/worker/step/traced_actions.h"

#include <algorithm>
#include <map>

#include "schedules/plan/action.h"

namespace troupe::actors {
namespace {

using schedules::Op;
using transport::Direction;
using transport::Edge;

/// The rank that sends the messages into `chunk`; -1: none.
int sender(const RankAssembly& part, int rank, int chunk, Direction direction) {
  const auto at = std::ranges::find_if(part.edges, [&](const Edge& e) {
    return e.to == rank && e.chunk == chunk && e.direction == direction;
  });
  return at == part.edges.end() ? -1 : at->from;
}
int receiver(const RankAssembly& part, int rank, int chunk, Direction direction) {
  const auto at = std::ranges::find_if(part.edges, [&](const Edge& e) {
    return e.from == rank && e.chunk == chunk && e.direction == direction;
  });
  return at == part.edges.end() ? -1 : at->to;
}

TracedActions::Row row_of(const PlanRunner::Recorded& recorded, const RankAssembly& part,
                          int rank) {
  const Instruction& next = recorded.instruction;
  TracedActions::Row row{
      .name = schedules::to_string(schedules::Action{
          .chunk = next.global_chunk, .op = next.op, .microbatch = next.microbatch}),
      .begin_s = to_bits(recorded.begin_s),
      .end_s = to_bits(recorded.end_s),
      .sent_s = to_bits(recorded.sent_s),
      .busy_s = to_bits(recorded.busy_s),
      .collective_s = to_bits(recorded.collective_s),
      .waited_s = to_bits(recorded.waited_s)};
  if (next.op == Op::W) return row;  // W exchanges no messages
  const bool forward = next.op == Op::F;
  const auto direction = forward ? Direction::forward : Direction::backward;
  row.from = sender(part, rank, next.global_chunk, direction);
  row.to = receiver(part, rank, next.global_chunk + (forward ? 1 : -1), direction);
  return row;
}

}  // namespace

std::vector<TracedActions> traced_actions(const PlanRunner& runner, const RankAssembly& part,
                                          int rank, const RunStep& order,
                                          std::span<const stages::CollectiveSpan> collectives) {
  std::vector<TracedActions> messages;
  std::size_t rows = 0;
  const auto message_of_next = [&]() -> TracedActions& {
    if (rows++ % kActionsPerMessage == 0)
      messages.push_back({.configuration = order.configuration, .step = order.step, .rank = rank});
    return messages.back();
  };
  for (const PlanRunner::Recorded& recorded : runner.recorded())
    message_of_next().rows.push_back(row_of(recorded, part, rank));
  for (const stages::CollectiveSpan& span : collectives)
    message_of_next().collectives.push_back({.group = span.of->group,
                                             .operation = span.of->operation,
                                             .bucket = span.bucket,
                                             .begin_s = to_bits(span.begin_s),
                                             .end_s = to_bits(span.end_s)});
  if (!messages.empty()) messages.back().complete = true;
  return messages;
}

void add_waits(Prepared& vote, const PlanRunner& runner, const RankAssembly& part, int rank) {
  std::map<int, double> by_sender;
  for (const Edge& edge : part.edges) {
    if (edge.to != rank || edge.from == rank) continue;
    const auto chunk = std::ranges::find(part.chunks, edge.chunk) - part.chunks.begin();
    by_sender[edge.from] += runner.wait_s(edge.direction, static_cast<int>(chunk));
  }
  for (const auto& [from, wait_s] : by_sender)
    vote.waited.push_back({.from = static_cast<std::uint32_t>(from), .wait_s = to_bits(wait_s)});
}

}  // namespace troupe::actors
