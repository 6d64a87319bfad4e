#include <cstddef>

#include "launch/charts/curve.h"
#include "launch/report/run_report.h"
#include "launch/run/metrics_file.h"

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

json host_json(const actors::HostStatus& host) {
  return {{"host", host.host},
          {"state", host.state},
          {"cause", host.cause},
          {"losses", host.losses},
          {"ranks", host.ranks},
          {"host_bytes", host.host_bytes},
          {"network_bytes", host.network_bytes}};
}

}  // namespace

TROUPE_JSON_FIELDS(ShapeSpan, x.after_step, x.pp, x.dp, x.tp, unless_empty(x.dp_of_stage),
                   unless_empty(x.tp_of_stage), x.schedule, x.hosts)
TROUPE_JSON_FIELDS(SavedCheckpoint, x.time, x.duration_s)
TROUPE_JSON_FIELDS(CheckpointRow, x.name, x.step, x.bytes)
TROUPE_JSON_FIELDS(StepPicture, x.step, keyed("measured_s", x.measured_s()),
                   keyed("predicted_s", x.predicted_s()), x.measured, x.predicted)
TROUPE_JSON_FIELDS(TimeShare, x.name, x.meaning, x.seconds, x.share)
TROUPE_JSON_FIELDS(ChangedKey, x.key, x.value, keyed("default", x.fallback))
TROUPE_JSON_FIELDS(DifferentKey, x.key, x.values)

void to_json(json& out, const TimedAction& a) {
  out = {schedules::to_string(a.action), a.begin_s, a.end_s};
}

json to_json(const RunReport& run) {
  const Metrics& metrics = run.metrics;
  const auto source_json = [](const NamedLosses& source) -> json {
    return {{"name", source.name}, {"tokens", source.tokens}, {"loss", points_json(source.losses)}};
  };
  const auto set_json = [](const NamedLosses& set) -> json {
    return {{"name", set.name}, {"loss", points_json(set.losses)}};
  };
  const auto checkpoint_json = [](const CheckpointRow& row) {
    json out = row;
    if (row.saved) out.update(json(*row.saved));
    return out;
  };
  json out{{"name", run.name()},
           {"directory", run.directory},
           {"state", run.live ? "running" : "ended"},
           {"step", run.last_step()},
           {"max_steps", run.manifest->max_steps},
           {"parameters", run.parameters},
           {"machine", run.machine},
           {"settings", changed_keys(run.manifest)},
           {"curves", curves_json(metrics)},
           {"sources", array_of(metrics.sources, source_json)},
           {"eval_sets", array_of(losses_by_set(metrics.evaluations), set_json)},
           {"time", run.time.parts},
           {"exposed_s", exposed_s(metrics)},
           {"ranks", metrics.ranks},
           {"shapes", run.history.shapes},
           {"events", run.history.timeline},
           {"checkpoints", array_of(run.checkpoints, checkpoint_json)},
           {"repeat", run.repeated_by()},
           {"changed", run.manifest->changed}};
  if (const auto hosts = hosts_of(run); hosts.size() > 1) out["hosts"] = array_of(hosts, host_json);
  if (!metrics.routers.empty()) {
    out["routers"] = metrics.routers;
    out["curves"]["aux_loss"] = points_json(aux_curve(metrics).raw);
  }
  if (run.ending) out["ending"] = to_json(*run.ending);
  if (run.step) out["measured_step"] = *run.step;
  if (run.prediction) out["prediction"] = to_json(*run.prediction);
  return out;
}

json to_json(const std::vector<RunReport>& runs) {
  return {{"runs", array_of(runs, [](const RunReport& run) { return to_json(run); })},
          {"differences", different_keys(runs)}};
}

}  // namespace troupe::launch
