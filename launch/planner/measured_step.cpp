#include "launch/planner/measured_step.h"

#include <fmt/format.h>

#include <cmath>

#include "launch/host/quantities.h"
#include "schedules/plan/counted.h"

namespace troupe::launch {

std::vector<ComparedPart> compared(const Prediction& prediction, const MeasuredStep& measured) {
  const schedules::StepPrediction& step = prediction.step;
  const std::vector<ComparedPart> all{
      {"step", step.step_s, measured.step_s},
      {"compute", step.compute_s, measured.compute_s},
      {"bubble and edges", step.bubble_share * step.step_s + step.edges_s, measured.waits_s},
      {"shards", step.shards_s, measured.shards_s},
      {"replicas", step.replicas_s, measured.replicas_s},
      {"optimizer and rest", step.optimizer_s, measured.rest_s()}};
  std::vector<ComparedPart> known;
  for (const ComparedPart& part : all)
    if (std::isfinite(part.measured)) known.push_back(part);
  return known;
}

nlohmann::json to_json(const MeasuredStep& measured) {
  nlohmann::json out{
      {"steps", measured.steps},
      {"step_s", measured.step_s},
      {"tokens_per_s", measured.tokens_per_s},
      {"compute_s", measured.compute_s},
      {"waits_s", measured.waits_s},
      {"exposed", {{"shards_s", measured.shards_s}, {"replicas_s", measured.replicas_s}}},
      {"rest_s", measured.rest_s()}};
  if (std::isfinite(measured.mfu)) out["mfu"] = measured.mfu;
  return out;
}

std::string to_text(const std::vector<ComparedPart>& parts, const MeasuredStep& measured) {
  std::string out = fmt::format("{:<20} {:>10} {:>10}   over {}\n", "", "predicted", "measured",
                                schedules::counted(measured.steps, "step"));
  for (const auto& [name, predicted, is] : parts) {
    out += fmt::format("  {:<18} {:>10} {:>10}", name, span_text(predicted), span_text(is));
    // Parts of a thousandth of a step say nothing by their ratio.
    if (is > measured.step_s / 1000) out += fmt::format("   {:+.0f} %", 100 * (predicted / is - 1));
    out += "\n";
  }
  return out;
}

}  // namespace troupe::launch
