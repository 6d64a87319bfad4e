#include "launch/report/history.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <utility>

#include "actors/topology/configuration.h"
#include "actors/topology/reports/reports.h"
#include "launch/control/event_json.h"
#include "launch/host/quantities.h"

namespace troupe::launch {
namespace {

using nlohmann::json;

double finite_or_0(double value) {
  return std::isfinite(value) ? value : 0;
}
double seconds_of(const json& event, const char* field) {
  return finite_or_0(number_of(event, field));
}

std::vector<Phase> phases_of(const json& event) {
  std::vector<Phase> phases;
  const auto found = event.find("phases");
  if (found == event.end()) return phases;
  const auto told = read_fields<actors::RecoveryPhases>(*found);
  for (const actors::PhaseName& phase : actors::kPhaseNames)
    phases.push_back(
        {.name = std::string(phase.name), .seconds = finite_or_0(told.*phase.seconds)});
  return phases;
}

std::vector<int> numbers_of(const json& event, const char* field) {
  const auto found = event.find(field);
  if (found == event.end() || !found->is_array()) return {};
  std::vector<int> numbers;
  for (const json& number : *found)
    if (number.is_number_integer()) numbers.push_back(number.get<int>());
  return numbers;
}

ShapeSpan shape_of(const json& membership) {
  const json pipeline = membership.value("pipeline", json::object());
  ShapeSpan shape{.after_step = integer_of(membership, "step"),
                  .pp = static_cast<int>(integer_of(membership, "pp", 1)),
                  .dp = static_cast<int>(integer_of(membership, "dp", 1)),
                  .tp = static_cast<int>(integer_of(membership, "tp", 1)),
                  .ep = static_cast<int>(integer_of(pipeline, "ep", 1)),
                  .dp_of_stage = numbers_of(pipeline, "dp_of_stage"),
                  .tp_of_stage = numbers_of(pipeline, "tp_of_stage"),
                  .schedule = text_of(membership, "schedule")};
  for (const json& rank : objects_of(membership, "ranks")) {
    const std::string host = text_of(rank, "host");
    if (std::ranges::find(shape.hosts, host) == shape.hosts.end()) shape.hosts.push_back(host);
  }
  return shape;
}

std::string text_for_people(const std::string& kind, const json& event) {
  if (kind == "straggler")
    return fmt::format("stage {} of replica {} is slow: {:.1f} ms of work in a step, usual {:.1f}",
                       integer_of(event, "stage"), integer_of(event, "replica"),
                       1e3 * number_of(event, "busy_s"), 1e3 * number_of(event, "usual_busy_s"));
  if (kind == "large_gradient")
    return fmt::format("bucket {} of its gradients has a norm of {:.4g}",
                       integer_of(event, "bucket"), number_of(event, "norm"));
  if (kind == "evaluation")
    return "loss " + actors::losses_text(number_of(event, "eval_loss"),
                                         field_of<std::vector<actors::SetLoss>>(event, "sets"));
  if (kind == "checkpoint")
    return fmt::format("{}, written in {}",
                       std::filesystem::path(text_of(event, "path")).filename().string(),
                       span_text(seconds_of(event, "duration_s")));
  if (kind == "membership") return shape_of(event).text();
  if (kind == "host") {
    const std::string cause = text_of(event, "cause");
    return fmt::format("{}: {}{}", text_of(event, "host"), text_of(event, "state"),
                       cause.empty() ? "" : ": " + cause);
  }
  if (kind == "phase") return text_of(event, "phase");
  if (kind == "director")
    return fmt::format("{} messages wait for the director", integer_of(event, "mailbox_depth"));
  return text_of(event, "cause");
}

}  // namespace

/// A launch hears of its hosts before its first configuration. That they have joined is no news.
bool Historian::is_of_next_launch(const json& event) const {
  return text_of(event, "kind") == "host" &&
         (configuration_ == 0 || integer_of(event, "configuration") < configuration_);
}

void Historian::add(const json& event) {
  if (is_of_next_launch(event)) return add_host(event);
  const std::string kind = text_of(event, "kind");
  const double time = seconds_of(event, "time");
  if (kind == "membership") add_membership(event, time);
  if (kind == "host") add_host(event);
  if (history_.launches.empty()) begin_launch(time);
  LaunchSpan& launch = history_.launches.back();
  launch.end = std::max(launch.end, time);
  launch.ended |= kind == "ended";
  if (kind == "went_back") reached_ = integer_of(event, "reached");
  if (kind == "failure" && !history_.recovering_since)
    history_.recovering_since = std::max(launch.begin, time - seconds_of(event, "detect_s"));
  if (kind == "recovered") history_.recovering_since.reset();
  if (kind == "ended") break_off_recovery();
  if (kind == "checkpoint")
    history_.checkpoints.push_back({.step = integer_of(event, "step"),
                                    .time = time,
                                    .duration_s = seconds_of(event, "duration_s")});
  constexpr std::array kTold{"failure",        "went_back",  "recovered", "rescaled", "straggler",
                             "large_gradient", "not_finite", "host",      "note",     "ended"};
  if (std::ranges::find(kTold, kind) != kTold.end()) history_.timeline.push_back(entry_of(event));
}

void Historian::add_host(const json& event) {
  std::vector<actors::HostStatus>& hosts = history_.hosts;
  // Those of the launch before are told anew, or are not among the hosts of the next one.
  if (is_of_next_launch(event) && !std::exchange(is_next_, true))
    for (actors::HostStatus& host : hosts) host.state.clear();
  const std::string name = text_of(event, "host");
  auto host = std::ranges::find(hosts, name, &actors::HostStatus::host);
  if (host == hosts.end()) host = hosts.insert(host, {.host = name});
  host->state = text_of(event, "state");
  host->cause = text_of(event, "cause");
  host->losses += host->state == "lost" ? 1 : 0;
}

void Historian::begin_launch(double time) {
  break_off_recovery();
  history_.launches.push_back({.begin = time, .end = time});
  reached_ = 0;
}

void Historian::break_off_recovery() {
  if (history_.recovering_since)
    history_.broken_off_s += history_.launches.back().end - *history_.recovering_since;
  history_.recovering_since.reset();
}

/// A launcher counts its configurations from 1, so a configuration that is no higher than the one
/// before it is of another launcher. Steps that a launcher computes again stay in the shape that
/// they had first.
void Historian::add_membership(const json& event, double time) {
  const std::int64_t configuration = integer_of(event, "configuration");
  ShapeSpan shape = shape_of(event);
  if (configuration <= configuration_ || history_.launches.empty()) {
    if (!history_.launches.empty())
      history_.timeline.push_back(
          {.kind = "launch",
           .time = time,
           .step = shape.after_step,
           .text = "resumed after step " + std::to_string(shape.after_step)});
    begin_launch(time);
  }
  configuration_ = configuration;
  is_next_ = false;
  history_.ranks = field_of<std::vector<actors::RankStatus>>(event, "ranks");
  std::erase_if(history_.hosts, [](const actors::HostStatus& host) { return host.state.empty(); });
  shape.after_step = std::max(shape.after_step, reached_);
  // Steps after this one were dropped, because the run was resumed.
  std::erase_if(history_.shapes,
                [&](const ShapeSpan& old) { return old.after_step >= shape.after_step; });
  if (history_.shapes.empty() || history_.shapes.back().text() != shape.text())
    history_.shapes.push_back(std::move(shape));
}

TimelineEntry entry_of(const json& event) {
  const std::string kind = text_of(event, "kind");
  return {.kind = kind,
          .time = seconds_of(event, "time"),
          .step = integer_of(event, "step"),
          .rank = static_cast<int>(integer_of(event, "rank", -1)),
          .text = text_for_people(kind, event),
          .phases = phases_of(event),
          .stall_s = seconds_of(event, "stall_s")};
}

std::string TimelineEntry::title() const {
  if (kind == "failure") return "worker lost";
  if (kind == "rescaled") return "changed";
  if (kind == "launch") return "resumed";
  if (kind == "membership") return "cluster";
  if (kind == "not_finite") return "not finite";
  if (kind == "large_gradient") return "large gradient";
  if (kind == "went_back") return "went back";
  return kind;
}

std::string TimelineEntry::sentence() const {
  if (!has_phases()) return text;
  if (kind == "recovered") return "the run went on after " + span_text(stall_s);
  return fmt::format("{}; the run went on after {}", text, span_text(stall_s));
}

std::string ShapeSpan::text() const {
  std::string out = fmt::format("pp {}", pp);
  if (dp_of_stage.empty() || dp_of_stage.size() != tp_of_stage.size()) {
    if (dp > 1) out += fmt::format(" x dp {}", dp);
    if (ep > 1) out += fmt::format(" (ep {})", ep);
    if (tp > 1) out += fmt::format(" x tp {}", tp);
  } else {
    actors::RunSpec::Mesh mesh{.pp = pp, .dp = dp, .tp = tp};
    for (std::size_t stage = 0; stage < dp_of_stage.size(); ++stage)
      mesh.widths.push_back({.dp = dp_of_stage[stage], .tp = tp_of_stage[stage]});
    out = to_string(mesh);
  }
  return schedule.empty() ? out : out + ", " + schedule;
}

History history_of(const std::vector<json>& events) {
  Historian historian;
  for (const json& event : events) historian.add(event);
  return historian.history();
}

}  // namespace troupe::launch
