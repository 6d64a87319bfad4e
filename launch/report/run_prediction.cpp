#include "launch/report/run_prediction.h"

#include <algorithm>
#include <limits>
#include <span>

#include "actors/tuning/step_meter.h"

namespace troupe::launch {
namespace {

constexpr std::size_t kFirstSteps = 2;

}  // namespace

std::optional<MeasuredStep> measured_steps(const Metrics& metrics, int ranks) {
  const auto newest = static_cast<std::size_t>(metrics.num_summed);
  const std::size_t count = std::min(newest, metrics.steps.size());
  if (count <= kFirstSteps || std::ssize(metrics.ranks) != ranks) return std::nullopt;
  const std::span<const StepRow> rows =
      std::span(metrics.steps).last(count).subspan(count > 2 * kFirstSteps ? kFirstSteps : 0);
  const auto median_of = [&](const auto& value) {
    std::vector<double> values;
    for (const StepRow& row : rows)
      if (const double x = value(row); x == x) values.push_back(x);
    return values.empty() ? std::numeric_limits<double>::quiet_NaN()
                          : actors::median(std::move(values));
  };
  // Without shards these waits are for what replicas exchange, a part of exposed_s.
  const bool has_shards =
      std::ranges::any_of(metrics.ranks, [](const RankTimes& rank) { return rank.shard > 0; });
  return MeasuredStep{
      .steps = static_cast<std::int64_t>(rows.size()),
      .step_s = median_of([](const StepRow& row) { return row.step_s; }),
      .tokens_per_s = median_of([](const StepRow& row) { return row.tokens_per_s(); }),
      .mfu = median_of([](const StepRow& row) { return row.mfu; }),
      .compute_s = median_of([](const StepRow& row) { return row.busy_s; }),
      .waits_s = median_of([](const StepRow& row) { return row.idle_s - row.collective_s; }),
      .shards_s = has_shards ? median_of([](const StepRow& row) { return row.collective_s; }) : 0,
      .replicas_s = median_of([](const StepRow& row) { return row.exposed_s; })};
}

std::optional<RunPrediction> predict_run(const actors::RunSpec& spec, const Metrics& metrics,
                                         const MachineDescription& machine) {
  const auto measured = measured_steps(metrics, spec.num_ranks());
  if (!measured) return std::nullopt;
  return RunPrediction{.machine = machine.name,
                       .prediction = predict(on_machine(spec, machine.model), machine.model),
                       .measured = *measured};
}

nlohmann::json to_json(const RunPrediction& run) {
  return {{"machine", run.machine},
          {"predicted", to_json(run.prediction)},
          {"measured", to_json(run.measured)}};
}

}  // namespace troupe::launch
