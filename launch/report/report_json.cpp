#include <cstddef>

#include "launch/charts/curve.h"
#include "launch/report/run_report.h"
#include "launch/run/report_fields.h"

namespace troupe::launch {
namespace {

using nlohmann::json;

/// What `of` makes of each element.
template <typename Rows, typename Of>
json array_of(const Rows& rows, Of of) {
  json out = json::array();
  for (const auto& row : rows) out.push_back(of(row));
  return out;
}

/// Columns of a curve, as many as the page draws.
constexpr std::size_t kColumns = 1000;

/// [[step, value], ...], thinned as in the page.
json points_json(const std::vector<Point>& points) {
  return array_of(thinned(points, kColumns), [](const Point& p) -> json { return {p.x, p.y}; });
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

json timeline_json(const TimelineEntry& h) {
  json row{{"kind", h.kind}, {"time", h.time}, {"step", h.step}, {"text", h.text}};
  if (h.rank >= 0) row["rank"] = h.rank;
  if (!h.phases.empty()) row["stall_s"] = h.stall_s;
  for (const Phase& phase : h.phases)
    row["phases"].push_back({{"name", phase.name}, {"seconds", phase.seconds}});
  return row;
}

json shape_json(const ShapeSpan& shape) {
  return {
      {"after_step", shape.after_step}, {"pp", shape.pp},      {"dp", shape.dp}, {"tp", shape.tp},
      {"schedule", shape.schedule},     {"hosts", shape.hosts}};
}

json action_json(const TimedAction& a) {
  return {schedules::to_string(a.action), a.begin_s, a.end_s};
}

json row_json(const RankRow& row) {
  return {{"rank", row.rank},
          {"replica", row.replica},
          {"stage", row.stage},
          {"shard", row.shard},
          {"actions", array_of(row.actions, action_json)}};
}

json step_json(const StepPicture& picture) {
  return {{"step", picture.step},
          {"measured_s", picture.measured_s()},
          {"predicted_s", picture.predicted_s()},
          {"measured", array_of(picture.measured, row_json)},
          {"predicted", array_of(picture.predicted, row_json)}};
}

json checkpoint_json(const CheckpointRow& row) {
  json out{{"name", row.name}, {"step", row.step}, {"bytes", row.bytes}};
  if (row.saved) out.update({{"time", row.saved->time}, {"duration_s", row.saved->duration_s}});
  return out;
}

}  // namespace

json to_json(const RunReport& run) {
  const Metrics& metrics = run.metrics;
  const auto time_json = [](const TimeShare& part) -> json {
    return {{"name", part.name},
            {"meaning", part.meaning},
            {"seconds", part.seconds},
            {"share", part.share}};
  };
  const auto source_json = [](const NamedLosses& source) -> json {
    return {{"name", source.name}, {"tokens", source.tokens}, {"loss", points_json(source.losses)}};
  };
  const auto set_json = [](const NamedLosses& set) -> json {
    return {{"name", set.name}, {"loss", points_json(set.losses)}};
  };
  const auto setting_json = [](const ChangedKey& key) -> json {
    return {{"key", key.key}, {"value", key.value}, {"default", key.fallback}};
  };
  json out{{"name", run.name()},
           {"directory", run.directory},
           {"state", run.live ? "running" : "ended"},
           {"step", run.last_step()},
           {"max_steps", run.manifest->max_steps},
           {"parameters", run.parameters},
           {"machine", run.machine},
           {"settings", array_of(changed_keys(run.manifest), setting_json)},
           {"curves", curves_json(metrics)},
           {"sources", array_of(metrics.sources, source_json)},
           {"eval_sets", array_of(losses_by_set(metrics.evaluations), set_json)},
           {"time", array_of(run.time.parts, time_json)},
           {"exposed_s", exposed_s(metrics)},
           {"ranks", metrics.ranks},
           {"shapes", array_of(run.history.shapes, shape_json)},
           {"events", array_of(run.history.timeline, timeline_json)},
           {"checkpoints", array_of(run.checkpoints, checkpoint_json)},
           {"repeat", run.repeated_by()},
           {"changed", run.manifest->changed}};
  if (run.ending) out["ending"] = to_json(*run.ending);
  if (run.step) out["measured_step"] = step_json(*run.step);
  return out;
}

json to_json(const std::vector<RunReport>& runs) {
  const auto difference_json = [](const DifferentKey& key) -> json {
    return {{"key", key.key}, {"values", key.values}};
  };
  return {{"runs", array_of(runs, [](const RunReport& run) { return to_json(run); })},
          {"differences", array_of(different_keys(runs), difference_json)}};
}

}  // namespace troupe::launch
