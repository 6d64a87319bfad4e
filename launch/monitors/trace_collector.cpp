#include "launch/monitors/trace_collector.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "launch/monitors/event_fields.h"
#include "schedules/plan/action.h"

namespace troupe::launch {
namespace {

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

}  // namespace

TraceCollector::TraceCollector(const json& status, int num_steps) : num_steps_(num_steps) {
  add_ranks(status);
}

void TraceCollector::add_ranks(const json& from) {
  ranks_.clear();
  for (const json& rank : objects_of(from, "ranks")) {
    const int number = static_cast<int>(integer_of(rank, "rank"));
    const std::string shard =
        integer_of(from, "tp", 1) > 1 ? fmt::format(", shard {}", integer_of(rank, "shard")) : "";
    ranks_[number] = fmt::format("rank {} (replica {}, stage {}{})", number,
                                 integer_of(rank, "replica"), integer_of(rank, "stage"), shard);
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
  RankActions& row = ranks[static_cast<int>(integer_of(event, "rank", -1))];
  for (const json& a : objects_of(event, "actions"))
    row.actions.push_back({.name = text_of(a, "name"),
                           .begin_s = number_of(a, "begin_s"),
                           .end_s = number_of(a, "end_s"),
                           .waited_s = number_of(a, "waited_s"),
                           .sent_s = number_of(a, "sent_s"),
                           .from = static_cast<int>(integer_of(a, "from", -1)),
                           .to = static_cast<int>(integer_of(a, "to", -1))});
  for (const json& c : objects_of(event, "collectives"))
    row.collectives.push_back({.group = text_of(c, "group"),
                               .operation = text_of(c, "op"),
                               .bucket = integer_of(c, "bucket"),
                               .begin_s = number_of(c, "begin_s"),
                               .end_s = number_of(c, "end_s")});
  row.complete = flag_of(event, "complete");
  const bool whole = ranks.size() == ranks_.size() &&
                     std::ranges::all_of(ranks, [](const auto& r) { return r.second.complete; });
  if (whole) complete_.insert(open_.extract(step));
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
      for (const Action& a : row.actions) origin = std::min(origin, a.begin_s - a.waited_s);
  for (const auto& [step, ranks] : complete_) append_step(events, step, ranks, origin);
  return {{"traceEvents", std::move(events)}, {"displayTimeUnit", "ms"}};
}

void TraceCollector::append_step(json& events, std::int64_t step, const Step& ranks,
                                 double origin_s) const {
  std::set<std::string> sent, needed;
  for (const auto& [rank, row] : ranks)
    for (const Action& a : row.actions)
      if (const auto action = schedules::parse_action(a.name)) {
        if (a.to >= 0 && a.to != rank) sent.insert(sent_by(step, *action));
        if (a.from >= 0 && a.from != rank) needed.insert(needed_by(step, *action));
      }
  const auto arrow = [&](const char* phase, int rank, int track, const std::string& id,
                         double at_s) {
    events.push_back({{"ph", phase},
                      {"pid", rank},
                      {"tid", track},
                      {"cat", "message"},
                      {"name", "message"},
                      {"id", id},
                      {"ts", microseconds(at_s - origin_s)}});
    if (*phase == 'f') events.back()["bp"] = "e";  // binds the arrow to the action that begins here
  };
  for (const auto& [rank, row] : ranks) {
    for (const Collective& c : row.collectives)
      for (const bool ends : {false, true})
        events.push_back({{"ph", ends ? "e" : "b"},
                          {"pid", rank},
                          {"tid", rank},
                          {"cat", "collective"},
                          {"name", c.operation},
                          {"id", fmt::format("{}:{}:{}:{}", step, rank, c.group, c.bucket)},
                          {"ts", microseconds((ends ? c.end_s : c.begin_s) - origin_s)},
                          {"args", {{"step", step}, {"group", c.group}, {"bucket", c.bucket}}}});
    // At most two actions run at the same time, a pair or those of two streams. Bars of one track
    // must not overlap.
    double ends_s[] = {0, 0};  // of the last bar on each track
    auto actions = row.actions;
    std::ranges::stable_sort(actions, {}, &Action::begin_s);
    for (const Action& a : actions) {
      const bool second = a.begin_s < ends_s[0];
      const int track = second ? second_track(rank) : rank;
      const double free_s = std::exchange(ends_s[second ? 1 : 0], a.end_s);
      const auto bar = [&](const std::string& name, const char* category, double begin_s,
                           double end_s) {
        events.push_back({{"ph", "X"},
                          {"pid", rank},
                          {"tid", track},
                          {"cat", category},
                          {"name", name},
                          {"ts", microseconds(begin_s - origin_s)},
                          {"dur", microseconds(end_s - begin_s)},
                          {"args", {{"step", step}}}});
      };
      // A host may wait for an action's message while the device still runs an earlier action.
      const double wait_s = std::max(a.begin_s - a.waited_s, free_s);
      if (wait_s < a.begin_s) bar("wait for " + a.name, "wait", wait_s, a.begin_s);
      bar(a.name, "action", a.begin_s, a.end_s);
      const auto action = schedules::parse_action(a.name);
      if (!action) continue;
      // An arrow needs both ends, each at a time inside its action. A message that is sent at an
      // action's end leaves shortly after it, so that time is moved inside.
      const double middle = (a.begin_s + a.end_s) / 2;
      const double left = a.sent_s < a.end_s ? a.sent_s : a.end_s - (a.end_s - a.begin_s) / 1000;
      if (a.to >= 0 && a.to != rank && needed.contains(sent_by(step, *action)))
        arrow("s", rank, track, sent_by(step, *action), left);
      if (a.from >= 0 && a.from != rank && sent.contains(needed_by(step, *action)))
        arrow("f", rank, track, needed_by(step, *action), middle);
    }
  }
}

}  // namespace troupe::launch
