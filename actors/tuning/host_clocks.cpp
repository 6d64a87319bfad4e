#include "actors/tuning/host_clocks.h"

#include <algorithm>
#include <tuple>

#include "schedules/plan/action.h"

namespace troupe::actors {
namespace {

using schedules::Op;

/// The chunk into which an action's output goes.
int next_chunk(const schedules::Action& action) {
  return action.chunk + (action.op == Op::F ? 1 : -1);
}

/// What is known of the clocks of hosts: by how much that of the second is ahead of that of the
/// first at most, by both.
class Bounds {
 public:
  void add(const std::string& from, const std::string& to, double seconds) {
    const auto [known, is_new] = most_[from].try_emplace(to, seconds);
    if (!is_new) known->second = std::min(known->second, seconds);
  }
  /// By how much each host is ahead of this one at most, by way of others too.
  std::map<std::string, double> from(const std::string& host) const {
    std::map<std::string, double> ahead{{host, 0}};
    bool changed = true;
    // No way is longer than all hosts, unless bounds contradict each other.
    for (std::size_t round = 0; changed && round <= most_.size(); ++round) {
      changed = false;
      for (const auto& [over, bounds] : most_)
        if (const auto known = ahead.find(over); known != ahead.end())
          for (const auto& [to, seconds] : bounds) {
            const double sum = known->second + seconds;
            const auto [old, is_new] = ahead.try_emplace(to, sum);
            changed |= is_new || sum < old->second;
            old->second = std::min(old->second, sum);
          }
    }
    return ahead;
  }
  Bounds reversed() const {
    Bounds reversed;
    for (const auto& [from, bounds] : most_)
      for (const auto& [to, seconds] : bounds) reversed.add(to, from, seconds);
    return reversed;
  }

 private:
  std::map<std::string, std::map<std::string, double>> most_;
};

/// The launcher's clock, whose host may have no rank.
constexpr const char* kLauncher = "\nlauncher";

Bounds bounds_of(const std::vector<TracedMessage>& messages,
                 const std::map<int, RankClock>& ranks) {
  Bounds bounds;
  for (const TracedMessage& message : messages) {
    const auto from = ranks.find(message.from), to = ranks.find(message.to);
    if (from == ranks.end() || to == ranks.end() || from->second.host == to->second.host) continue;
    bounds.add(from->second.host, to->second.host, message.came_s - message.sent_s);
  }
  for (const auto& [rank, clock] : ranks) {
    if (!clock.measured || !clock.measured->is_possible()) continue;
    const auto& [seconds, error_s] = *clock.measured;
    bounds.add(kLauncher, clock.host, error_s + seconds);
    bounds.add(clock.host, kLauncher, error_s - seconds);
  }
  return bounds;
}

}  // namespace

std::vector<TracedMessage> messages_between(const TracedRanks& ranks) {
  // When messages left, by sender, chunk that the message is sent to, forward or not, and
  // microbatch.
  std::map<std::tuple<int, int, bool, int>, double> sent;
  for (const auto& [rank, rows] : ranks)
    for (const auto& row : rows) {
      const auto action = schedules::parse_action(row.name);
      if (!action || action->op == Op::W) continue;
      sent[{rank, next_chunk(*action), action->op == Op::F, action->microbatch}] = row.sent_s;
    }
  std::vector<TracedMessage> messages;
  for (const auto& [rank, rows] : ranks)
    for (const auto& row : rows) {
      const auto action = schedules::parse_action(row.name);
      if (!action || row.from < 0 || row.from == rank) continue;
      const auto found =
          sent.find({row.from, action->chunk, action->op == Op::F, action->microbatch});
      if (found == sent.end()) continue;
      messages.push_back({.from = row.from,
                          .to = rank,
                          .sent_s = found->second,
                          .wanted_s = row.begin_s - row.waited_s,
                          .came_s = row.begin_s});
    }
  return messages;
}

std::map<int, ClockAhead> clocks_ahead(const std::vector<TracedMessage>& messages,
                                       const std::map<int, RankClock>& ranks) {
  if (ranks.empty()) return {};
  const std::string& first = ranks.begin()->second.host;
  const Bounds bounds = bounds_of(messages, ranks);
  const auto most = bounds.from(first), least = bounds.reversed().from(first);
  std::map<int, ClockAhead> ahead;
  for (const auto& [rank, clock] : ranks) {
    const auto above = most.find(clock.host), below = least.find(clock.host);
    if (above == most.end() || below == least.end()) continue;
    // Below it by `below` at most is ahead of it by -below at least.
    ahead[rank] = {.seconds = (above->second - below->second) / 2,
                   .error_s = std::max(0.0, (above->second + below->second) / 2)};
  }
  return ahead;
}

void set_back(std::vector<ActionsTraced::Action>& actions, double seconds) {
  for (auto& action : actions) {
    action.queued_s -= seconds;
    action.begin_s -= seconds;
    action.end_s -= seconds;
    if (action.sent_s != 0) action.sent_s -= seconds;  // 0: it had no output
  }
}

void set_back(std::vector<ActionsTraced::Collective>& collectives, double seconds) {
  for (auto& collective : collectives) {
    collective.begin_s -= seconds;
    collective.end_s -= seconds;
  }
}

}  // namespace troupe::actors
