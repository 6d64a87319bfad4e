#include "launch/control/event_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <variant>

#include "launch/control/control_protocol.h"
#include "launch/control/memory_json.h"
#include "launch/host/suggest.h"
#include "tensor/error.h"

namespace troupe::launch {
namespace {

using nlohmann::json;
using namespace actors;

json phases_of(const RecoveryPhases& phases) {
  json fields;
  for (const PhaseName& phase : kPhaseNames) fields[phase.field] = phases.*phase.seconds;
  return fields;
}

json stages_of(const StepReport& report) {
  json stages = json::array();
  for (const auto& s : report.stages()) {
    stages.push_back({{"replica", s.replica},
                      {"stage", s.stage},
                      {"shard", s.shard},
                      {"busy_s", s.busy_s},
                      {"idle_s", s.idle_s},
                      {"collective_s", s.collective_s}});
    if (s.device_total_bytes == 0) continue;
    stages.back()["device_used_bytes"] = s.device_used_bytes;
    stages.back()["device_total_bytes"] = s.device_total_bytes;
  }
  return stages;
}

json edges_of(const StepReport& report) {
  json edges = json::array();
  for (const auto& e : report.edges())
    edges.push_back({{"from", e.from}, {"to", e.to}, {"bytes", e.bytes}, {"wait_s", e.wait_s}});
  return edges;
}

json collectives_of(const StepReport& report) {
  json rows = json::array();
  for (const auto& c : report.collectives())
    rows.push_back({{"group", c.group},
                    {"op", c.operation},
                    {"count", c.count},
                    {"bytes", c.bytes},
                    {"time_s", c.time_s},
                    {"exposed_s", c.exposed_s}});
  return rows;
}

json with_sources(json fields, const StepReport& report) {
  for (const auto& source : report.sources)
    fields["sources"].push_back(
        {{"name", source.name}, {"loss", source.loss}, {"tokens", source.tokens}});
  return fields;
}

// The fields of each kind, without those that every event has.

json fields_of(const StepReport& r) {
  return with_sources({{"loss", r.loss},
                       {"grad_norm", r.grad_norm},
                       {"lr", r.lr},
                       {"tokens", r.tokens},
                       {"tokens_per_s", r.tokens_per_s()},
                       {"step_s", r.step_s},
                       {"stages", stages_of(r)},
                       {"edges", edges_of(r)},
                       {"collectives", collectives_of(r)}},
                      r);
}
json body_of(const StepCommitted& e) {
  return fields_of(e.report);
}
json body_of(const StepAgain& e) {
  json fields = fields_of(e.report);
  fields["back_to"] = e.way.back_to;
  fields["reached"] = e.way.reached;
  return fields;
}
json body_of(const EvaluationDone& e) {
  json fields{{"eval_loss", e.loss}};
  for (const auto& [name, loss] : e.sets)
    fields["sets"].push_back({{"name", name}, {"loss", loss}});
  return fields;
}
json body_of(const CheckpointSaved& e) {
  return {{"path", e.path}, {"duration_s", e.duration_s}};
}
json body_of(const NotFinite& e) {
  return {{"cause", e.where}};
}
json body_of(const MembershipChanged& e) {
  json ranks = json::array();
  for (const RankStatus& r : e.ranks)
    ranks.push_back({{"rank", r.rank},
                     {"replica", r.replica},
                     {"stage", r.stage},
                     {"shard", r.shard},
                     {"pid", r.pid},
                     {"host", r.host}});
  return {{"pp", e.pipeline.pp},    {"dp", e.pipeline.dp},
          {"tp", e.pipeline.tp},    {"pipeline", to_json(e.pipeline)},
          {"schedule", e.schedule}, {"ranks", std::move(ranks)}};
}
json body_of(const RankActivity& e) {
  json links = json::array();
  for (const auto& link : e.links) links.push_back({{"to", link.to}, {"queued", link.queued}});
  return {{"state", e.state},
          {"waiting_for", e.waiting_for},
          {"resident_bytes", e.resident_bytes},
          {"memory_bytes", to_json(e.allocated)},
          {"mailbox_depth", e.mailbox_depth},
          {"links", std::move(links)}};
}
json body_of(const DirectorActivity& e) {
  return {{"mailbox_depth", e.mailbox_depth}, {"handler_s", e.handler_s}};
}
json body_of(const ActionsTraced& e) {
  json actions = json::array();
  for (const auto& action : e.actions) actions.push_back(to_json(action));
  json collectives = json::array();
  for (const auto& c : e.collectives)
    collectives.push_back({{"group", c.group},
                           {"op", c.operation},
                           {"bucket", c.bucket},
                           {"begin_s", c.begin_s},
                           {"end_s", c.end_s}});
  return {{"actions", std::move(actions)},
          {"collectives", std::move(collectives)},
          {"complete", e.complete}};
}
json body_of(const TensorTapped& e) {
  json body{{"to", e.to},
            {"direction", e.backward ? "backward" : "forward"},
            {"microbatch", e.microbatch},
            {"elements", e.summary.elements},
            {"not_finite", e.summary.not_finite},
            {"norm", e.summary.norm},
            {"mean", e.summary.mean},
            {"min", e.summary.min},
            {"max", e.summary.max},
            {"histogram", e.summary.histogram}};
  if (!e.file.empty()) body["file"] = e.file;
  if (!e.error.empty()) body["error"] = e.error;
  return body;
}
json body_of(const ParametersSeen& e) {
  json tensors = json::array();
  for (const auto& row : e.rows) {
    json bins = json::array();
    for (const auto& [bin, count] : row.part.counts) bins.push_back({bin, count});
    tensors.push_back({{"name", row.tensor},
                       {"of", row.is_gradient ? "gradient" : "weight"},
                       {"whole", row.whole},
                       {"elements", row.part.elements},
                       {"not_finite", row.part.not_finite},
                       {"min", row.part.min},
                       {"max", row.part.max},
                       {"sum", row.part.sum},
                       {"squares", row.part.squares},
                       {"bins", std::move(bins)}});
  }
  return {{"tensors", std::move(tensors)}};
}
json body_of(const StragglerFound& e) {
  return {{"replica", e.replica}, {"stage", e.stage},   {"shard", e.shard},
          {"score", e.score},     {"busy_s", e.busy_s}, {"usual_busy_s", e.usual_busy_s}};
}
json body_of(const LargeGradient& e) {
  return {{"bucket", e.bucket}, {"norm", e.norm}};
}
json body_of(const FailureDetected& e) {
  return {{"cause", e.cause}, {"detect_s", e.detect_s}};
}
json body_of(const PhaseBegun& e) {
  return {{"phase", e.phase}};
}
json body_of(const WentBack& e) {
  return {{"cause", to_string(e.way)},
          {"from", e.from},
          {"back_to", e.way.back_to},
          {"reached", e.way.reached}};
}
json body_of(const Recovered& e) {
  return {{"cause", e.cause},
          {"from", e.from},
          {"phases", phases_of(e.phases)},
          {"stall_s", e.stall_s}};
}
json body_of(const Rescaled& e) {
  return {{"cause", e.cause}, {"phases", phases_of(e.phases)}, {"stall_s", e.stall_s}};
}
json body_of(const MonitorAttached& e) {
  return {{"cause", e.who}};
}
json body_of(const MonitorDetached& e) {
  return {{"cause", e.who}, {"dropped", e.dropped}};
}
json body_of(const Note& e) {
  return {{"cause", e.text}};
}
json body_of(const RunEnded& e) {
  return {{"cause", e.outcome.reason}, {"exit_code", e.outcome.exit_code}};
}

}  // namespace

json to_json(const ActionsTraced::Action& a) {
  return {{"name", a.name},
          {"begin_s", a.begin_s},
          {"end_s", a.end_s},
          {"from", a.from},
          {"to", a.to},
          {"waited_s", a.waited_s},
          {"collective_s", a.collective_s},
          {"sent_s", a.sent_s}};
}

json to_json(const RunEvent& event) {
  json out = std::visit([](const auto& body) { return body_of(body); }, event.body);
  out["time"] = event.time;
  out["kind"] = kind_name(event);
  out["configuration"] = event.configuration;
  out["step"] = event.step;
  if (event.rank >= 0) out["rank"] = event.rank;
  return out;
}

EventMask parse_kinds(const std::string& names) {
  if (names.empty()) return all_events();
  EventMask mask;
  for (std::size_t begin = 0; begin <= names.size();) {
    const std::size_t end = std::min(names.find(',', begin), names.size());
    const std::string name = names.substr(begin, end - begin);
    const auto found = std::ranges::find(kEventNames, name);
    if (found == kEventNames.end())
      throw Error(ErrorKind::usage,
                  fmt::format("no event is called '{}'; did you mean '{}'? It is one of {}", name,
                              nearest(name, kEventNames), quoted_list(kEventNames)));
    mask.set(static_cast<std::size_t>(found - kEventNames.begin()));
    begin = end + 1;
  }
  return mask;
}

}  // namespace troupe::launch
