#include "launch/monitors/received_event.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "launch/control/control_protocol.h"
#include "launch/monitors/event_fields.h"

namespace troupe::launch {
namespace {

using nlohmann::json;
using namespace actors;

int int_of(const json& from, const char* field, int otherwise = 0) {
  return static_cast<int>(integer_of(from, field, otherwise));
}

std::uint64_t count_of(const json& from, const char* field) {
  return static_cast<std::uint64_t>(std::max<std::int64_t>(0, integer_of(from, field)));
}

template <typename T>
std::vector<T> numbers_of(const json& from, const char* field) {
  std::vector<T> numbers;
  const auto found = from.find(field);
  if (found == from.end() || !found->is_array()) return numbers;
  for (const json& each : *found)
    if (each.is_number()) numbers.push_back(each.get<T>());
  return numbers;
}

json object_of(const json& from, const char* field) {
  const auto found = from.find(field);
  return found != from.end() && found->is_object() ? *found : json::object();
}

RecoveryPhases phases_of(const json& event) {
  const json fields = object_of(event, "phases");
  RecoveryPhases phases;
  for (const PhaseName& phase : kPhaseNames) phases.*phase.seconds = number_of(fields, phase.field);
  return phases;
}

StepReport::Measured measured_of(const json& event) {
  StepReport::Measured measured;
  for (const json& s : objects_of(event, "stages"))
    measured.stages.push_back({.replica = int_of(s, "replica"),
                               .stage = int_of(s, "stage"),
                               .shard = int_of(s, "shard"),
                               .busy_s = number_of(s, "busy_s"),
                               .idle_s = number_of(s, "idle_s"),
                               .collective_s = number_of(s, "collective_s"),
                               .device_used_bytes = count_of(s, "device_used_bytes"),
                               .device_total_bytes = count_of(s, "device_total_bytes")});
  for (const json& e : objects_of(event, "edges"))
    measured.edges.push_back({.from = int_of(e, "from"),
                              .to = int_of(e, "to"),
                              .bytes = count_of(e, "bytes"),
                              .wait_s = number_of(e, "wait_s")});
  for (const json& c : objects_of(event, "collectives"))
    measured.collectives.push_back({.group = text_of(c, "group"),
                                    .operation = text_of(c, "op"),
                                    .count = int_of(c, "count"),
                                    .bytes = integer_of(c, "bytes"),
                                    .time_s = number_of(c, "time_s"),
                                    .exposed_s = number_of(c, "exposed_s")});
  return measured;
}

StepReport report_of(const json& event) {
  StepReport report{.step = integer_of(event, "step"),
                    .loss = number_of(event, "loss"),
                    .grad_norm = number_of(event, "grad_norm"),
                    .lr = number_of(event, "lr"),
                    .tokens = integer_of(event, "tokens"),
                    .step_s = number_of(event, "step_s")};
  for (const json& source : objects_of(event, "sources"))
    report.sources.push_back({.name = text_of(source, "name"),
                              .loss = number_of(source, "loss"),
                              .tokens = integer_of(source, "tokens")});
  report.replicas = {std::make_shared<StepReport::Measured>(measured_of(event))};
  return report;
}

CatchUp way_of(const json& event) {
  return {.back_to = integer_of(event, "back_to"), .reached = integer_of(event, "reached")};
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

std::vector<RankStatus> ranks_of(const json& from) {
  std::vector<RankStatus> ranks;
  for (const json& r : objects_of(from, "ranks"))
    ranks.push_back({.rank = int_of(r, "rank"),
                     .replica = int_of(r, "replica"),
                     .stage = int_of(r, "stage"),
                     .shard = int_of(r, "shard"),
                     .pid = int_of(r, "pid"),
                     .host = text_of(r, "host"),
                     .state = text_of(r, "state"),
                     .waiting_for = text_of(r, "waiting_for"),
                     .resident_bytes = count_of(r, "resident_bytes")});
  return ranks;
}

Pipeline pipeline_of(const json& from) {
  const json p = object_of(from, "pipeline");
  return {.pp = int_of(p, "pp", 1),
          .dp = int_of(p, "dp", 1),
          .tp = int_of(p, "tp", 1),
          .stage_of_chunk = numbers_of<int>(p, "stage_of_chunk"),
          .copies = int_of(p, "copies", 1),
          .microbatches = int_of(p, "microbatches")};
}

RankActivity activity_of(const json& event) {
  RankActivity activity{.state = text_of(event, "state"),
                        .waiting_for = text_of(event, "waiting_for"),
                        .resident_bytes = count_of(event, "resident_bytes"),
                        .mailbox_depth = count_of(event, "mailbox_depth")};
  for (const json& link : objects_of(event, "links"))
    activity.links.push_back({.to = int_of(link, "to"), .queued = int_of(link, "queued")});
  return activity;
}

StragglerFound straggler_of(const json& event) {
  return {.replica = int_of(event, "replica"),
          .stage = int_of(event, "stage"),
          .shard = int_of(event, "shard"),
          .score = number_of(event, "score"),
          .busy_s = number_of(event, "busy_s"),
          .usual_busy_s = number_of(event, "usual_busy_s")};
}

/// What happened to the cluster; none for other kinds.
std::optional<EventBody> change_of(const std::string& kind, const json& event) {
  const std::string cause = text_of(event, "cause");
  const double stall_s = number_of(event, "stall_s");
  if (kind == "membership")
    return MembershipChanged{.pipeline = pipeline_of(event),
                             .schedule = text_of(event, "schedule"),
                             .ranks = ranks_of(event)};
  if (kind == "failure")
    return FailureDetected{.cause = cause, .detect_s = number_of(event, "detect_s")};
  if (kind == "phase") return PhaseBegun{.phase = text_of(event, "phase")};
  if (kind == "went_back") return WentBack{.way = way_of(event), .from = text_of(event, "from")};
  if (kind == "recovered")
    return Recovered{.cause = cause,
                     .from = text_of(event, "from"),
                     .phases = phases_of(event),
                     .stall_s = stall_s};
  if (kind == "rescaled")
    return Rescaled{.cause = cause, .phases = phases_of(event), .stall_s = stall_s};
  if (kind == "ended")
    return RunEnded{.outcome = {.exit_code = int_of(event, "exit_code"),
                                .step = integer_of(event, "step"),
                                .reason = cause}};
  return std::nullopt;
}

std::optional<EventBody> body_of(const std::string& kind, const json& event) {
  const std::string cause = text_of(event, "cause");
  if (kind == "step") return StepCommitted{.report = report_of(event)};
  if (kind == "step_again") return StepAgain{.report = report_of(event), .way = way_of(event)};
  if (kind == "evaluation")
    return EvaluationDone{.loss = number_of(event, "eval_loss"), .sets = set_losses(event)};
  if (kind == "checkpoint")
    return CheckpointSaved{.path = text_of(event, "path"),
                           .duration_s = number_of(event, "duration_s")};
  if (kind == "not_finite") return NotFinite{.where = cause};
  if (kind == "activity") return activity_of(event);
  if (kind == "director")
    return DirectorActivity{.mailbox_depth = count_of(event, "mailbox_depth"),
                            .handler_s = numbers_of<double>(event, "handler_s")};
  if (kind == "actions") return received_actions(event);
  if (kind == "straggler") return straggler_of(event);
  if (kind == "large_gradient")
    return LargeGradient{.bucket = int_of(event, "bucket"), .norm = number_of(event, "norm")};
  if (kind == "attached") return MonitorAttached{.who = cause};
  if (kind == "detached")
    return MonitorDetached{.who = cause, .dropped = count_of(event, "dropped")};
  if (kind == "note") return Note{.text = cause};
  return change_of(kind, event);
}

}  // namespace

actors::ActionsTraced received_actions(const json& event) {
  actors::ActionsTraced traced{.complete = flag_of(event, "complete")};
  for (const json& a : objects_of(event, "actions"))
    traced.actions.push_back({.name = text_of(a, "name"),
                              .begin_s = number_of(a, "begin_s"),
                              .end_s = number_of(a, "end_s"),
                              .from = int_of(a, "from", -1),
                              .to = int_of(a, "to", -1),
                              .waited_s = number_of(a, "waited_s"),
                              .collective_s = number_of(a, "collective_s"),
                              .sent_s = number_of(a, "sent_s")});
  for (const json& c : objects_of(event, "collectives"))
    traced.collectives.push_back({.group = text_of(c, "group"),
                                  .operation = text_of(c, "op"),
                                  .bucket = int_of(c, "bucket"),
                                  .begin_s = number_of(c, "begin_s"),
                                  .end_s = number_of(c, "end_s")});
  return traced;
}

std::optional<RunEvent> received_event(const json& event) {
  auto body = body_of(text_of(event, "kind"), event);
  if (!body) return std::nullopt;
  return RunEvent{.configuration = static_cast<std::uint32_t>(integer_of(event, "configuration")),
                  .step = integer_of(event, "step"),
                  .rank = int_of(event, "rank", -1),
                  .body = *std::move(body),
                  .time = number_of(event, "time")};
}

RunStatus received_status(const json& status) {
  return {.state = text_of(status, "state"),
          .step = integer_of(status, "step"),
          .max_steps = integer_of(status, "max_steps"),
          .configuration = static_cast<std::uint32_t>(integer_of(status, "configuration")),
          .refused = count_of(status, "refused"),
          .pipeline = pipeline_of(status),
          .ranks = ranks_of(status),
          .catch_up = catch_up_of(status)};
}

}  // namespace troupe::launch
