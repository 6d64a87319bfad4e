#include "launch/report/report_json.h"

#include <cstddef>

#include "launch/charts/curve.h"
#include "launch/run/report_fields.h"

namespace troupe::launch {
namespace {

using nlohmann::json;

/// Columns of a curve, as many as the page draws.
constexpr std::size_t kColumns = 1000;

/// [[step, value], ...], thinned as in the page.
json points_json(const std::vector<Point>& points) {
  json out = json::array();
  for (const Point& p : thinned(points, kColumns)) out.push_back({p.x, p.y});
  return out;
}

json curves_json(const Metrics& metrics) {
  const Curve loss = loss_curve(metrics);
  return {{"loss", points_json(loss.raw)},
          {"loss_smoothed", points_json(loss.smooth)},
          {"eval_loss", points_json(evaluation_points(metrics.evaluations))},
          {"tokens_per_s", points_json(speed_curve(metrics).raw)},
          {"grad_norm", points_json(norm_curve(metrics).raw)},
          {"lr", points_json(rate_curve(metrics).raw)},
          {"mfu_percent", points_json(mfu_curve(metrics).raw)}};
}

json sources_json(const Metrics& metrics) {
  json out = json::array();
  for (const SourceRow& source : metrics.sources)
    out.push_back(
        {{"name", source.name}, {"tokens", source.tokens}, {"loss", points_json(source.losses)}});
  return out;
}

json eval_sets_json(const Metrics& metrics) {
  json out = json::array();
  for (const SetLosses& set : losses_by_set(metrics.evaluations))
    out.push_back({{"name", set.name}, {"loss", points_json(set.losses)}});
  return out;
}

json time_json(const RunReport& run) {
  json out = json::array();
  const double whole = run.seconds();
  for (const TimeShare& share : run.time)
    out.push_back({{"name", share.name},
                   {"meaning", share.meaning},
                   {"seconds", share.seconds},
                   {"share", whole > 0 ? share.seconds / whole : 0}});
  return out;
}

json timeline_json(const History& history) {
  json out = json::array();
  for (const TimelineEntry& h : history.timeline) {
    json row{{"kind", h.kind}, {"time", h.time}, {"step", h.step}, {"text", h.text}};
    if (h.rank >= 0) row["rank"] = h.rank;
    if (!h.phases.empty()) row["stall_s"] = h.stall_s;
    for (const Phase& phase : h.phases)
      row["phases"].push_back({{"name", phase.name}, {"seconds", phase.seconds}});
    out.push_back(std::move(row));
  }
  return out;
}

json shapes_json(const History& history) {
  json out = json::array();
  for (const ShapeSpan& shape : history.shapes)
    out.push_back({{"after_step", shape.after_step},
                   {"pp", shape.pp},
                   {"dp", shape.dp},
                   {"tp", shape.tp},
                   {"schedule", shape.schedule},
                   {"hosts", shape.hosts}});
  return out;
}

json rows_json(const std::vector<RankRow>& rows) {
  json out = json::array();
  for (const RankRow& row : rows) {
    json actions = json::array();
    for (const TimedAction& a : row.actions)
      actions.push_back({schedules::to_string(a.action), a.begin_s, a.end_s});
    out.push_back({{"rank", row.rank},
                   {"replica", row.replica},
                   {"stage", row.stage},
                   {"shard", row.shard},
                   {"actions", std::move(actions)}});
  }
  return out;
}

json step_json(const StepPicture& picture) {
  return {{"step", picture.step},
          {"measured_s", picture.measured_s()},
          {"predicted_s", picture.predicted_s()},
          {"measured", rows_json(picture.measured)},
          {"predicted", rows_json(picture.predicted)}};
}

json checkpoints_json(const std::vector<CheckpointRow>& checkpoints) {
  json out = json::array();
  for (const CheckpointRow& row : checkpoints) {
    out.push_back({{"name", row.name}, {"step", row.step}, {"bytes", row.bytes}});
    if (!row.saved) continue;
    out.back()["time"] = row.saved->time;
    out.back()["duration_s"] = row.saved->duration_s;
  }
  return out;
}

json settings_json(const Manifest& manifest) {
  json out = json::array();
  for (const ChangedKey& key : changed_keys(manifest))
    out.push_back({{"key", key.key}, {"value", key.value}, {"default", key.fallback}});
  return out;
}

}  // namespace

json to_json(const RunReport& run) {
  json out{{"name", run.name()},
           {"directory", run.directory},
           {"state", run.live ? "running" : "ended"},
           {"step", run.last_step()},
           {"max_steps", run.manifest.integer("run.max_steps")},
           {"parameters", run.parameters},
           {"machine", run.machine},
           {"settings", settings_json(run.manifest)},
           {"curves", curves_json(run.metrics)},
           {"sources", sources_json(run.metrics)},
           {"eval_sets", eval_sets_json(run.metrics)},
           {"time", time_json(run)},
           {"exposed_s", exposed_s(run.metrics)},
           {"ranks", run.metrics.ranks},
           {"shapes", shapes_json(run.history)},
           {"events", timeline_json(run.history)},
           {"checkpoints", checkpoints_json(run.checkpoints)},
           {"repeat", run.repeated_by()},
           {"changed", run.manifest.texts("run.changed")}};
  if (run.ending) out["ending"] = to_json(*run.ending);
  if (run.step) out["measured_step"] = step_json(*run.step);
  return out;
}

json to_json(const std::vector<RunReport>& runs) {
  json out{{"runs", json::array()}, {"differences", json::array()}};
  for (const RunReport& run : runs) out["runs"].push_back(to_json(run));
  for (const DifferentKey& key : different_keys(runs))
    out["differences"].push_back({{"key", key.key}, {"values", key.values}});
  return out;
}

}  // namespace troupe::launch
