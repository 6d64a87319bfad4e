#include "actors/messages/message_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ranges>
#include <string_view>
#include <vector>

#include "schedules/plan/action.h"

namespace troupe::actors {
namespace {

/// Far more ranks than any cluster has, and far fewer than would overflow a memory size.
constexpr int kMostRanks = 1 << 20;

bool is_duration(double seconds) {
  return std::isfinite(seconds) && seconds >= 0;
}

/// Whether a text may be the name of a parameter, a group or an operation, which files and monitors
/// show.
bool is_name(std::string_view text) {
  constexpr std::size_t kMostLetters = 64;
  return text.size() <= kMostLetters && std::ranges::all_of(text, [](char c) {
           return c >= ' ' && c <= '~' && c != '"' && c != '\\';
         });
}

bool is_rank(std::int64_t rank, int num_ranks) {
  return rank >= 0 && rank < num_ranks;
}

/// Why the configuration or the rank of an answer is impossible; empty if both are possible.
template <typename Answer>
std::string fault_of_place(const Answer& answer, const ReplicaPart& part) {
  if (answer.configuration != part.configuration)
    return fmt::format("configuration {}, but configuration {} runs", answer.configuration,
                       part.configuration);
  const int first = part.first_rank;
  if (answer.rank < first || answer.rank >= first + part.ranks_of_replica)
    return fmt::format("rank {}, but the ranks of replica {} are {} to {}", answer.rank,
                       part.replica, first, first + part.ranks_of_replica - 1);
  return "";
}

template <typename Answer>
std::string fault_of_step(const Answer& answer, const ReplicaPart& part, std::int64_t first,
                          std::int64_t last) {
  if (std::string fault = fault_of_place(answer, part); !fault.empty()) return fault;
  if (answer.step >= first && answer.step <= last) return "";
  return fmt::format("step {} after step {} was committed", answer.step, part.committed);
}

std::string fault_of_shape(const ClusterShape& shape) {
  const int pp = shape.mesh.pp, dp = shape.mesh.dp, tp = shape.mesh.tp;
  if (pp < 1 || dp < 1 || tp < 1 || pp > kMostRanks || dp > kMostRanks / pp ||
      tp > kMostRanks / pp / dp)
    return fmt::format("a mesh of {} x {} x {} ranks", pp, dp, tp);
  if (shape.mesh.ep < 1 || dp % shape.mesh.ep != 0)
    return fmt::format("experts shared out by {} of {} replicas", shape.mesh.ep, dp);
  const auto& widths = shape.mesh.widths;
  if (!widths.empty() && std::ssize(widths) != pp)
    return fmt::format("{} widths of {} stages", widths.size(), pp);
  for (const auto& [replicas, shards] : widths)
    if (replicas < 1 || shards < 1 || replicas > dp || shards > tp || dp % replicas != 0)
      return fmt::format("a stage of {} x {} ranks in a mesh of {} x {}", replicas, shards, dp, tp);
  if (shape.schedule.chunks < 1 || shape.schedule.chunks > kMostRanks)
    return fmt::format("{} chunks a stage", shape.schedule.chunks);
  if (shape.layout.stages != pp)
    return fmt::format("layers on {} stages of {}", shape.layout.stages, pp);
  for (const auto& chunk : shape.layout.chunks)
    if (!is_rank(chunk.stage, pp) || chunk.first_layer < 0 || chunk.end_layer < chunk.first_layer)
      return fmt::format("layers {} to {} on stage {} of {}", chunk.first_layer, chunk.end_layer,
                         chunk.stage, pp);
  return "";
}

}  // namespace

std::string fault_in(const Ready& answer, const ReplicaPart& part) {
  if (std::string fault = fault_of_place(answer, part); !fault.empty()) return fault;
  const Ready::Difference& difference = answer.difference;
  if (!is_name(difference.parameter) || difference.count < 0 ||
      !is_rank(difference.reference, part.num_ranks))
    return fmt::format("{} parameters that differ from replica {}'s", difference.count,
                       difference.reference);
  return is_duration(answer.move_s) ? "" : "a time that is not finite or is negative";
}

std::string fault_in(const Prepared& answer, const ReplicaPart& part) {
  if (std::string fault = fault_of_step(answer, part, part.committed + 1, part.committed + 1);
      !fault.empty())
    return fault;
  if (answer.targets < 0) return fmt::format("{} targets", answer.targets);
  if (answer.groups > GroupsState::own)
    return fmt::format("state {} of its groups", static_cast<int>(answer.groups));
  for (const auto& source : answer.sources)
    if (source.targets < 0) return fmt::format("{} targets of a source", source.targets);
  for (const auto& sent : answer.sent)
    if (!is_rank(sent.to, part.num_ranks)) return fmt::format("an edge to rank {}", sent.to);
  for (const auto& waited : answer.waited)
    if (!is_rank(waited.from, part.num_ranks))
      return fmt::format("an edge from rank {}", waited.from);
  for (const auto& row : answer.collectives)
    if (row.count < 0 || row.bytes < 0)
      return fmt::format("{} collectives of {} bytes", row.count, row.bytes);
  for (const auto& row : answer.collectives)
    if (!is_name(row.group) || !is_name(row.operation)) return "a group with an impossible name";
  for (const auto& router : answer.routers)
    if (router.layer < 0) return fmt::format("a router of layer {}", router.layer);
  for (const auto& large : answer.large)
    if (large.bucket < 0) return fmt::format("bucket {}", large.bucket);
  const bool are_times =
      is_duration(answer.busy_s) && is_duration(answer.collective_s) &&
      is_duration(answer.wall_s) &&
      std::ranges::all_of(answer.waited, is_duration, &Prepared::Waited::wait_s) &&
      std::ranges::all_of(answer.collectives, [](const auto& row) {
        return is_duration(row.time_s) && is_duration(row.exposed_s);
      });
  return are_times ? "" : "a time that is not finite or is negative";
}

std::string fault_in(const Copied& answer, const ReplicaPart& part) {
  return fault_of_step(answer, part, part.committed, part.committed);
}

std::string fault_in(const Saved& answer, const ReplicaPart& part) {
  return fault_of_step(answer, part, 0, part.committed);
}

std::string fault_in(const Evaluated& answer, const ReplicaPart& part) {
  if (answer.batch < 0) return fmt::format("batch {}", answer.batch);
  if (answer.targets < 0) return fmt::format("{} targets", answer.targets);
  return fault_of_step(answer, part, 0, part.committed);
}

std::string fault_in(const TracedActions& actions, int num_ranks, int num_chunks) {
  if (!is_rank(actions.rank, num_ranks))
    return fmt::format("rank {} of {}", actions.rank, num_ranks);
  for (const ActionsTraced::Action& row : actions.body.actions) {
    const auto action = schedules::parse_action(row.name);
    if (!action || !is_rank(action->chunk, num_chunks) || action->microbatch < 0)
      return fmt::format("'{}' as an action", row.name.substr(0, 20));
    if (!is_rank(row.from, num_ranks) && row.from != -1)
      return fmt::format("a message of rank {}", row.from);
    if (!is_rank(row.to, num_ranks) && row.to != -1)
      return fmt::format("a message for rank {}", row.to);
    for (const double time : {row.queued_s, row.begin_s, row.end_s, row.sent_s, row.busy_s,
                              row.collective_s, row.waited_s})
      if (!std::isfinite(time)) return "a time that is not finite or is negative";
  }
  for (const auto& collective : actions.body.collectives) {
    if (!is_name(collective.group) || !is_name(collective.operation))
      return "a group with an impossible name";
    if (collective.bucket < 0) return fmt::format("bucket {}", collective.bucket);
    if (!is_duration(collective.begin_s) || !is_duration(collective.end_s))
      return "a time that is not finite or is negative";
  }
  return "";
}

std::string fault_in(const TracedActions& actions, const ReplicaPart& part) {
  if (std::string fault = fault_of_step(actions, part, part.committed, part.committed + 1);
      !fault.empty())
    return fault;
  return fault_in(actions, part.num_ranks, part.num_chunks);
}

std::string fault_in(const Tapped& message, const ReplicaPart& part) {
  if (std::string fault = fault_of_step(message, part, part.committed, part.committed + 1);
      !fault.empty())
    return fault;
  const TensorTapped& tapped = message.body;
  const TensorSummary& summary = tapped.summary;
  if (!is_rank(tapped.to, part.num_ranks)) return fmt::format("a tensor for rank {}", tapped.to);
  if (tapped.microbatch < 0) return fmt::format("microbatch {}", tapped.microbatch);
  if (summary.elements < 0 || summary.not_finite < 0 || summary.not_finite > summary.elements)
    return fmt::format("{} of {} elements not finite", summary.not_finite, summary.elements);
  if (std::ssize(summary.histogram) != TensorSummary::kBins)
    return fmt::format("a histogram of {} bins", summary.histogram.size());
  return "";
}

std::string fault_in(const ParameterHistograms& histograms, const ReplicaPart& part) {
  if (std::string fault = fault_of_step(histograms, part, part.committed, part.committed + 1);
      !fault.empty())
    return fault;
  const auto is_bin = [](int bin) {
    return bin >= -ValueHistogram::kBins && bin <= ValueHistogram::kBins;
  };
  for (const ParametersSeen::Row& row : histograms.body.rows)
    if (row.part.elements < 0 || row.part.not_finite < 0 || row.part.elements > row.whole ||
        !std::ranges::all_of(std::views::keys(row.part.counts), is_bin))
      return fmt::format("an impossible histogram of {}", row.tensor);
  return "";
}

std::string fault_in(const Heartbeat& beat) {
  for (const Heartbeat::Placed& edge : beat.edges)
    if (edge.placement > transport::EdgePlacement::peer)
      return fmt::format("placement {} of an edge", static_cast<int>(edge.placement));
  return is_duration(beat.longest_action_s) ? "" : "a time that is not finite or is negative";
}

std::string fault_in(const Rejoin& message) {
  if (!is_rank(message.member.id, kMostRanks))
    return fmt::format("a worker with id {}", message.member.id);
  for (const HeldConfiguration& held : message.held) {
    const auto& [run, number, shape] = held.header;
    if (number < 1 || number > message.configuration)
      return fmt::format("a worker that knows configuration {} and holds {}", message.configuration,
                         number);
    if (std::string fault = fault_of_shape(shape); !fault.empty())
      return "a worker that holds " + fault;
    if (!is_rank(held.rank, shape.num_ranks()))
      return fmt::format("a worker that is rank {} of {}", held.rank, shape.num_ranks());
  }
  for (const CommittedStep& commit : message.commits)
    if (commit.step < 1 || commit.targets < 0)
      return fmt::format("a worker that knows of step {} with {} targets", commit.step,
                         commit.targets);
  return "";
}

std::string fault_in(const EnterConfiguration& order, std::uint64_t incarnation) {
  if (std::string fault = fault_of_shape(order.configuration.shape); !fault.empty()) return fault;
  if (order.configuration.rank_of(incarnation) < 0)
    return "a configuration that this worker is not in";
  if (order.start.state.step < 0)
    return fmt::format("step {} to start after", order.start.state.step);
  const StatePlan& state = order.start.state;
  if (state.from_memory)
    if (std::string fault = fault_of_shape(state.kept); !fault.empty()) return fault;
  std::vector<int> known;
  for (const auto& [place, member] : order.configuration.members) known.push_back(place);
  for (const StateMove& move : state.moves)
    if (move.unit < 0 || move.copy_of < -1 || !is_rank(move.part, state.kept.num_ranks()) ||
        !std::ranges::binary_search(known, move.from) ||
        !std::ranges::binary_search(known, move.to))
      return fmt::format("unit {} of state from {} to {}", move.unit, move.from, move.to);
  for (const auto& [rank, keeper] : order.start.ring.keepers)
    if (rank == keeper || !std::ranges::binary_search(known, rank) ||
        !std::ranges::binary_search(known, keeper) ||
        !is_rank(std::max(rank, keeper), order.configuration.num_ranks()))
      return fmt::format("a copy of the state of rank {} at rank {}", rank, keeper);
  return "";
}

std::string fault_in(const WarmUp& order) {
  if (std::string fault = fault_of_shape(order.shape); !fault.empty()) return fault;
  return is_rank(order.rank, order.shape.num_ranks())
             ? ""
             : fmt::format("rank {} of {}", order.rank, order.shape.num_ranks());
}

}  // namespace troupe::actors
