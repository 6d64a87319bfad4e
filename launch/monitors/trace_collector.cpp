#include "launch/monitors/trace_collector.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "actors/tuning/host_clocks.h"
#include "launch/control/event_json.h"
#include "schedules/plan/action.h"

namespace troupe::launch {
namespace {

using actors::ActionsTraced;
using nlohmann::json;

/// The most incomplete steps that are kept. An older one has lost an event and will never be
/// complete.
constexpr std::size_t kMaxOpen = 8;

/// The name of a message, which is the same at its sender and its receiver.
std::string message_name(std::int64_t step, bool forward, int microbatch, int into_chunk) {
  return fmt::format("{}{}{}:{}", step, forward ? "F" : "B", microbatch, into_chunk);
}

bool is_forward(const schedules::Action& action) {
  return action.op == schedules::Op::F;
}
std::string sent_by(std::int64_t step, const schedules::Action& a) {
  return message_name(step, is_forward(a), a.microbatch, a.chunk + (is_forward(a) ? 1 : -1));
}
std::string needed_by(std::int64_t step, const schedules::Action& a) {
  return message_name(step, is_forward(a), a.microbatch, a.chunk);
}

double microseconds(double seconds) {
  return 1e6 * seconds;
}

/// Appends one step to a trace: bars of its actions and collectives, and arrows of its messages.
class StepTrace {
 public:
  using Action = ActionsTraced::Action;
  using Step = std::map<int, ActionsTraced>;  // by rank

  /// `origin_s` is the time at which the trace begins.
  StepTrace(json& events, std::int64_t step, double origin_s, int num_ranks)
      : events_(events), step_(step), origin_s_(origin_s), num_ranks_(num_ranks) {}

  void add(const Step& ranks) {
    for (const auto& [rank, row] : ranks)
      for (const Action& a : row.actions)
        if (const auto action = schedules::parse_action(a.name)) {
          if (a.to >= 0 && a.to != rank) sent_.insert(sent_by(step_, *action));
          if (a.from >= 0 && a.from != rank) needed_.insert(needed_by(step_, *action));
        }
    for (const auto& [rank, row] : ranks) {
      for (const ActionsTraced::Collective& c : row.collectives) add_collective(rank, c);
      add_actions(rank, row.actions);
    }
  }

 private:
  json& add(const char* phase, int rank, int track, const char* category, const std::string& name,
            double at_s) {
    return events_.emplace_back(json{{"ph", phase},
                                     {"pid", rank},
                                     {"tid", track},
                                     {"cat", category},
                                     {"name", name},
                                     {"ts", microseconds(at_s - origin_s_)}});
  }
  void add_collective(int rank, const ActionsTraced::Collective& c) {
    for (const bool ends : {false, true}) {
      json& event =
          add(ends ? "e" : "b", rank, rank, "collective", c.operation, ends ? c.end_s : c.begin_s);
      event["id"] = fmt::format("{}:{}:{}:{}", step_, rank, c.group, c.bucket);
      event["args"] = {{"step", step_}, {"group", c.group}, {"bucket", c.bucket}};
    }
  }
  /// At most two actions run at the same time, a pair or those of two streams. Bars of one track
  /// must not overlap.
  void add_actions(int rank, std::vector<Action> actions) {
    double ends_s[] = {0, 0};  // of the last bar on each track
    std::ranges::stable_sort(actions, {}, &Action::begin_s);
    for (const Action& a : actions) {
      const bool second = a.begin_s < ends_s[0];
      const int track = second ? num_ranks_ + rank : rank;
      const double free_s = std::exchange(ends_s[second ? 1 : 0], a.end_s);
      // A host may wait for an action's message while the device still runs an earlier action.
      const double wait_s = std::max(a.begin_s - a.waited_s, free_s);
      if (wait_s < a.begin_s) add_bar(rank, track, "wait for " + a.name, "wait", wait_s, a.begin_s);
      add_bar(rank, track, a.name, "action", a.begin_s, a.end_s)["args"]["queued_us_before"] =
          microseconds(std::max(0.0, a.begin_s - a.queued_s));
      if (const auto action = schedules::parse_action(a.name)) add_arrows(rank, track, a, *action);
    }
  }
  json& add_bar(int rank, int track, const std::string& name, const char* category, double begin_s,
                double end_s) {
    json& event = add("X", rank, track, category, name, begin_s);
    event["dur"] = microseconds(end_s - begin_s);
    event["args"] = {{"step", step_}};
    return event;
  }
  /// An arrow needs both ends, each at a time inside its action. A message that is sent at an
  /// action's end leaves shortly after it, so that time is moved inside.
  void add_arrows(int rank, int track, const Action& a, const schedules::Action& action) {
    const double middle = (a.begin_s + a.end_s) / 2;
    const double left = a.sent_s < a.end_s ? a.sent_s : a.end_s - (a.end_s - a.begin_s) / 1000;
    if (a.to >= 0 && a.to != rank && needed_.contains(sent_by(step_, action)))
      add_arrow("s", rank, track, sent_by(step_, action), left);
    if (a.from >= 0 && a.from != rank && sent_.contains(needed_by(step_, action)))
      add_arrow("f", rank, track, needed_by(step_, action), middle);
  }
  void add_arrow(const char* phase, int rank, int track, const std::string& id, double at_s) {
    json& event = add(phase, rank, track, "message", "message", at_s);
    event["id"] = id;
    if (*phase == 'f') event["bp"] = "e";  // binds the arrow to the action that begins here
  }

  json& events_;
  const std::int64_t step_;
  const double origin_s_;
  const int num_ranks_;
  std::set<std::string> sent_, needed_;
};

}  // namespace

TraceCollector::TraceCollector(const json& status, int num_steps) : num_steps_(num_steps) {
  add_ranks(status);
}

void TraceCollector::add_ranks(const json& from) {
  ranks_.clear();
  hosts_.clear();
  const bool has_shards = integer_of(from, "tp", 1) > 1;
  const auto ranks = field_of<std::vector<actors::RankStatus>>(from, "ranks");
  for (const auto& r : ranks) hosts_[r.rank] = r.host;
  const bool has_hosts = actors::are_on_several_hosts(ranks);
  for (const auto& r : ranks)
    ranks_[r.rank] = fmt::format("rank {} (replica {}, stage {}{}){}", r.rank, r.replica, r.stage,
                                 has_shards ? fmt::format(", shard {}", r.shard) : "",
                                 has_hosts ? " on " + r.host : "");
}

/// Sets all times of a step back to the clock of the first rank's host.
void TraceCollector::use_one_clock(Step& ranks) {
  actors::TracedRanks actions;
  std::map<int, actors::RankClock> clocks;
  for (const auto& [rank, row] : ranks) {
    actions[rank] = row.actions;
    clocks[rank] = {.host = hosts_[rank], .measured = row.clock};
  }
  for (const auto& [rank, clock] : clocks_ahead(messages_between(actions), clocks)) {
    const auto [known, is_new] = clocks_.try_emplace(hosts_[rank], clock);
    if (!is_new && known->second.error_s < clock.error_s) known->second = clock;
    set_back(ranks[rank].actions, clock.seconds);
    set_back(ranks[rank].collectives, clock.seconds);
  }
}

void TraceCollector::add(const json& event) {
  const std::string kind = text_of(event, "kind");
  if (kind == "membership") {
    add_ranks(event);
    open_.clear();
  }
  if (kind != "actions" || done()) return;
  const std::int64_t step = integer_of(event, "step", -1);
  Step& ranks = open_[step];
  ActionsTraced& row = ranks[static_cast<int>(integer_of(event, "rank", -1))];
  auto part = read_fields<ActionsTraced>(event);
  std::ranges::move(part.actions, std::back_inserter(row.actions));
  std::ranges::move(part.collectives, std::back_inserter(row.collectives));
  row.complete = part.complete;
  row.clock = part.clock;
  const bool whole = ranks.size() == ranks_.size() &&
                     std::ranges::all_of(ranks, [](const auto& r) { return r.second.complete; });
  if (whole) {
    use_one_clock(ranks);
    complete_.insert(open_.extract(step));
  }
  while (open_.size() > kMaxOpen) open_.erase(open_.begin());
}

json TraceCollector::chrome_trace() const {
  json events = json::array();
  for (const auto& [rank, name] : ranks_) {
    events.push_back(
        {{"ph", "M"}, {"pid", rank}, {"name", "process_name"}, {"args", {{"name", name}}}});
    events.push_back({{"ph", "M"},
                      {"pid", rank},
                      {"name", "process_sort_index"},
                      {"args", {{"sort_index", rank}}}});
    for (const bool second : {false, true})
      events.push_back({{"ph", "M"},
                        {"pid", rank},
                        {"tid", second ? second_track(rank) : rank},
                        {"name", "thread_name"},
                        {"args", {{"name", second ? "actions at the same time" : "actions"}}}});
  }
  double origin = std::numeric_limits<double>::infinity();
  for (const auto& [step, ranks] : complete_)
    for (const auto& [rank, row] : ranks)
      for (const ActionsTraced::Action& a : row.actions)
        origin = std::min(origin, a.begin_s - a.waited_s);
  for (const auto& [step, ranks] : complete_)
    StepTrace(events, step, origin, static_cast<int>(ranks_.size())).add(ranks);
  json trace{{"traceEvents", std::move(events)}, {"displayTimeUnit", "ms"}};
  if (clocks_.size() > 1) trace["otherData"] = clocks_json();
  return trace;
}

double TraceCollector::clock_error_s() const {
  double error_s = 0;
  for (const auto& [host, clock] : clocks_) error_s = std::max(error_s, clock.error_s);
  return error_s;
}

json TraceCollector::clocks_json() const {
  json hosts = json::object();
  for (const auto& [host, clock] : clocks_)
    hosts[host] = {{"ahead_us", microseconds(clock.seconds)},
                   {"error_us", microseconds(clock.error_s)}};
  return {{"clock_error_us", microseconds(clock_error_s())}, {"clocks", std::move(hosts)}};
}

}  // namespace troupe::launch
