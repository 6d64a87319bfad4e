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

/// By how much clocks of hosts are ahead of others, by both hosts: where messages went both ways.
std::map<std::string, std::map<std::string, ClockAhead>> differences(
    const std::vector<TracedMessage>& messages, const std::map<int, std::string>& hosts) {
  std::map<std::string, std::map<std::string, double>> least;
  std::map<std::string, std::map<std::string, ClockAhead>> ahead;
  for (const TracedMessage& message : messages) {
    const auto from = hosts.find(message.from), to = hosts.find(message.to);
    if (from == hosts.end() || to == hosts.end() || from->second == to->second) continue;
    const double bound_s = message.came_s - message.sent_s;
    const auto [known, is_new] = least[from->second].try_emplace(to->second, bound_s);
    if (!is_new) known->second = std::min(known->second, bound_s);
  }
  for (const auto& [from, bounds] : least)
    for (const auto& [to, bound_s] : bounds) {
      const auto others = least.find(to);
      if (others == least.end() || !others->second.contains(from)) continue;
      const double back_s = others->second.at(from);
      ahead[from][to] = {.seconds = (bound_s - back_s) / 2, .error_s = (bound_s + back_s) / 2};
    }
  return ahead;
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
                                       const std::map<int, std::string>& hosts) {
  if (hosts.empty()) return {};
  const auto between = differences(messages, hosts);
  const std::string& first = hosts.begin()->second;
  std::map<std::string, ClockAhead> ahead{{first, {}}};
  std::vector<std::string> reached{first};
  for (std::size_t i = 0; i < reached.size(); ++i) {
    const std::string from = reached[i];
    if (!between.contains(from)) continue;
    for (const auto& [to, step] : between.at(from)) {
      const ClockAhead sum{.seconds = ahead.at(from).seconds + step.seconds,
                           .error_s = ahead.at(from).error_s + step.error_s};
      if (ahead.try_emplace(to, sum).second) reached.push_back(to);
    }
  }
  std::map<int, ClockAhead> by_rank;
  for (const auto& [rank, host] : hosts)
    if (ahead.contains(host)) by_rank[rank] = ahead.at(host);
  return by_rank;
}

void set_back(std::vector<ActionsTraced::Action>& actions, double seconds) {
  for (auto& action : actions) {
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
