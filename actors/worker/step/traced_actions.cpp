#include "actors/worker/step/traced_actions.h"

#include <algorithm>
#include <map>

#include "schedules/plan/action.h"

namespace troupe::actors {
namespace {

using schedules::Op;
using transport::Direction;
using transport::Edge;

/// The rank at the other end of the edge of which `rank` is the end `mine`; -1: none.
int peer(const RankAssembly& part, int Edge::*mine, int rank, int chunk, Direction direction) {
  for (const Edge& edge : part.edges)
    if (edge.*mine == rank && edge.chunk == chunk && edge.direction == direction)
      return mine == &Edge::to ? edge.from : edge.to;
  return -1;
}

ActionsTraced::Action traced(const PlanRunner::Recorded& recorded, const RankAssembly& part,
                             int rank) {
  const Instruction& next = recorded.instruction;
  ActionsTraced::Action action = recorded.times;
  action.name = schedules::to_string(
      schedules::Action{.chunk = next.global_chunk, .op = next.op, .microbatch = next.microbatch});
  if (next.op == Op::W) return action;  // W exchanges no messages
  const bool forward = next.op == Op::F;
  const auto direction = forward ? Direction::forward : Direction::backward;
  action.from = peer(part, &Edge::to, rank, next.global_chunk, direction);
  action.to = peer(part, &Edge::from, rank, next.global_chunk + (forward ? 1 : -1), direction);
  return action;
}

}  // namespace

std::vector<TracedActions> traced_actions(const PlanRunner& runner, const RankAssembly& part,
                                          int rank, const RunStep& order,
                                          std::span<const stages::CollectiveSpan> collectives) {
  std::vector<TracedActions> messages;
  std::size_t rows = 0;
  const auto message_of_next = [&]() -> ActionsTraced& {
    if (rows++ % kActionsPerMessage == 0)
      messages.push_back(
          {.configuration = order.configuration, .step = order.step, .rank = rank, .body = {}});
    return messages.back().body;
  };
  for (const PlanRunner::Recorded& recorded : runner.recorded())
    message_of_next().actions.push_back(traced(recorded, part, rank));
  for (const stages::CollectiveSpan& span : collectives)
    message_of_next().collectives.push_back({.group = span.of->group,
                                             .operation = span.of->operation,
                                             .bucket = span.bucket,
                                             .begin_s = span.begin_s,
                                             .end_s = span.end_s});
  if (!messages.empty()) messages.back().body.complete = true;
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
    vote.waited.push_back({.from = static_cast<std::uint32_t>(from), .wait_s = wait_s});
}

}  // namespace troupe::actors
