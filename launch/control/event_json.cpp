#include "launch/control/event_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <variant>

#include "launch/host/suggest.h"
#include "tensor/errors/error.h"

namespace troupe::launch {

using nlohmann::json;
using namespace actors;

namespace {

/// The progress of work that takes longer than a step.
json progress_of(const RunStatus& status) {
  json progress = json::array();
  const auto add = [&](const std::string& what, auto done, auto of, const char* unit) {
    progress.push_back({{"what", what}, {"done", done}, {"of", of}, {"unit", unit}});
  };
  if (const auto& way = status.catch_up)
    add(kCatchingUp, status.step - way->back_to, way->reached - way->back_to, "steps");
  if (status.evaluated) add("evaluation", *status.evaluated, status.evaluations, "steps");
  if (!status.saving) return progress;
  std::uint64_t saved = 0;
  for (const RankStatus& rank : status.ranks) saved += rank.saved_bytes;
  add("checkpoint of step " + std::to_string(*status.saving),
      std::min(saved, status.checkpoint_bytes), status.checkpoint_bytes, "bytes");
  return progress;
}

std::uint64_t resident_bytes(const RunStatus& status) {
  std::uint64_t sum = 0;
  for (const RankStatus& rank : status.ranks) sum += rank.resident_bytes;
  return sum;
}

/// The catch-up among the things that are under way.
std::optional<CatchUp> catch_up_of(const json& status) {
  for (const json& work : objects_of(status, "progress"))
    if (text_of(work, "what") == kCatchingUp) {
      const std::int64_t back_to = integer_of(status, "step") - integer_of(work, "done");
      return CatchUp{.back_to = back_to, .reached = back_to + integer_of(work, "of")};
    }
  return std::nullopt;
}

}  // namespace

TROUPE_JSON_FIELDS(RunStatus, x.state, x.step, x.max_steps, x.configuration, x.refused, x.pipeline,
                   x.ranks, unless_empty(x.hosts), unless_empty(x.failure),
                   keyed("progress", progress_of(x)), keyed("resident_bytes", resident_bytes(x)))

// The fields of each kind of event, without those that every event has.

TROUPE_JSON_FIELDS(StepReport, x.loss, x.grad_norm, x.lr, x.tokens,
                   keyed("tokens_per_s", x.tokens_per_s()), x.step_s, unless_empty(x.sources),
                   unless_empty(x.aux_loss), unless_empty(x.routers), keyed("stages", x.stages()),
                   keyed("edges", x.edges()), keyed("collectives", x.collectives()))
TROUPE_JSON_FIELDS(EvaluationDone, keyed("eval_loss", x.loss), unless_empty(x.sets))
TROUPE_JSON_FIELDS(CheckpointSaved, x.path, x.duration_s)
TROUPE_JSON_FIELDS(NotFinite, keyed("cause", x.where))
TROUPE_JSON_FIELDS(MembershipChanged, x.pipeline.pp, x.pipeline.dp, x.pipeline.tp, x.pipeline,
                   x.schedule, x.ranks)
TROUPE_JSON_FIELDS(RankActivity::Link, x.to, x.queued)
TROUPE_JSON_FIELDS(RankActivity, x.state, x.waiting_for, x.resident_bytes,
                   keyed("memory_bytes", x.allocated), x.mailbox_depth, x.links)
TROUPE_JSON_FIELDS(DirectorActivity, x.mailbox_depth, x.handler_s)
TROUPE_JSON_FIELDS(TensorTapped, x.to, keyed("direction", x.backward ? "backward" : "forward"),
                   x.microbatch, x.summary.elements, x.summary.not_finite, x.summary.norm,
                   x.summary.mean, x.summary.min, x.summary.max,
                   keyed("histogram", json(x.summary.histogram)), unless_empty(x.file),
                   unless_empty(x.error))
TROUPE_JSON_FIELDS(ParametersSeen::Row, keyed("name", x.tensor),
                   keyed("of", x.is_gradient ? "gradient" : "weight"), x.whole, x.part.elements,
                   x.part.not_finite, x.part.min, x.part.max, x.part.sum, x.part.squares,
                   keyed("bins", json(x.part.counts)))
TROUPE_JSON_FIELDS(ParametersSeen, keyed("tensors", x.rows))
TROUPE_JSON_FIELDS(LargeGradient, x.bucket, x.norm)
TROUPE_JSON_FIELDS(FailureDetected, x.cause, x.detect_s)
TROUPE_JSON_FIELDS(PhaseBegun, x.phase)
TROUPE_JSON_FIELDS(WentBack, keyed("cause", to_string(x.way)), x.from, x.way.back_to, x.way.reached)
TROUPE_JSON_FIELDS(Recovered, x.cause, x.from, x.phases, x.stall_s)
TROUPE_JSON_FIELDS(Rescaled, x.cause, x.phases, x.stall_s)
TROUPE_JSON_FIELDS(HostChanged, x.host, x.state, x.cause)
TROUPE_JSON_FIELDS(GroupsChanged, x.collectives)
TROUPE_JSON_FIELDS(MonitorAttached, keyed("cause", x.who))
TROUPE_JSON_FIELDS(MonitorDetached, keyed("cause", x.who), x.dropped)
TROUPE_JSON_FIELDS(Note, keyed("cause", x.text))
TROUPE_JSON_FIELDS(RunEnded, keyed("cause", x.outcome.reason), x.outcome.exit_code)

namespace {

template <typename Body>
json body_json(const Body& body) {
  return body;
}
json body_json(const StepCommitted& step) {
  return step.report;
}
json body_json(const StepAgain& again) {
  json out = again.report;
  out.update(json(again.way));
  return out;
}
/// The ranks have not done anything yet.
json body_json(const MembershipChanged& membership) {
  json out = membership;
  for (json& rank : out["ranks"])
    for (const char* later : {"state", "waiting_for", "resident_bytes", "memory_bytes"})
      rank.erase(later);
  return out;
}

StepReport received_report(const json& event) {
  auto report = read_fields<StepReport>(event);
  report.step = integer_of(event, "step");
  if (!event.contains("aux_loss")) report.aux_loss = 0;  // left out
  report.replicas = {
      std::make_shared<StepReport::Measured>(read_fields<StepReport::Measured>(event))};
  return report;
}

template <typename Body>
void receive(const json& event, Body& body) {
  read_value(event, body);
}
void receive(const json& event, StepCommitted& step) {
  step.report = received_report(event);
}
void receive(const json& event, StepAgain& again) {
  again = {.report = received_report(event), .way = read_fields<CatchUp>(event)};
}
void receive(const json& event, RunEnded& end) {
  read_value(event, end);
  end.outcome.step = integer_of(event, "step");
}

/// An empty body of each kind, in the order of kEventNames.
template <typename... Bodies>
std::vector<EventBody> empty_bodies(const std::variant<Bodies...>*) {
  return {Bodies{}...};
}

}  // namespace

json to_json(const RunEvent& event) {
  json out = std::visit([](const auto& body) { return body_json(body); }, event.body);
  out["time"] = event.time;
  out["kind"] = kind_name(event);
  out["configuration"] = event.configuration;
  out["step"] = event.step;
  if (event.rank >= 0) out["rank"] = event.rank;
  return out;
}

std::optional<RunEvent> received_event(const json& event) {
  RunEvent received{.configuration = field_of<std::uint32_t>(event, "configuration"),
                    .step = integer_of(event, "step"),
                    .rank = field_of(event, "rank", -1),
                    .body = {},
                    .time = number_of(event, "time")};
  const std::string kind = text_of(event, "kind");
  for (EventBody& body : empty_bodies(&received.body)) {
    received.body = std::move(body);
    if (kind_name(received) != kind) continue;
    if ((mask_of<TensorTapped, ParametersSeen>()[received.body.index()])) return std::nullopt;
    std::visit([&](auto& fields) { receive(event, fields); }, received.body);
    return received;
  }
  return std::nullopt;
}

json to_json(const RunStatus& status, const std::string& run) {
  json out = status;
  out["run"] = run;
  return out;
}

RunStatus received_status(const json& status) {
  auto received = read_fields<RunStatus>(status);
  received.catch_up = catch_up_of(status);
  return received;
}

EventMask parse_kinds(const std::string& names) {
  if (names.empty()) return all_events();
  EventMask mask;
  for (std::size_t begin = 0; begin <= names.size();) {
    const std::size_t end = std::min(names.find(',', begin), names.size());
    const std::string name = names.substr(begin, end - begin);
    const auto found = std::ranges::find(kEventNames, name);
    if (found == kEventNames.end())
      refuse(fmt::format("no event is called '{}'; did you mean '{}'? It is one of {}", name,
                         nearest(name, kEventNames), quoted_list(kEventNames)));
    mask.set(static_cast<std::size_t>(found - kEventNames.begin()));
    begin = end + 1;
  }
  return mask;
}

}  // namespace troupe::launch
