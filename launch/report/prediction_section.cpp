#include <fmt/format.h>

#include "launch/charts/markup.h"
#include "launch/host/quantities.h"
#include "launch/report/run_page.h"

// What a plan says of the run's steps, beside what they took.

namespace troupe::launch {

std::string prediction_section(const RunReport& run) {
  if (!run.prediction) return "";
  const auto& [machine, prediction, measured] = *run.prediction;
  Table table{.caption = "Predicted and measured",
              .head = {"part of a step", "predicted", "measured", "difference"},
              .numbers = {1, 2, 3}};
  for (const auto& [name, predicted, is] : compared(prediction, measured)) {
    // Parts of a thousandth of a step say nothing by their ratio.
    const bool counts = is > measured.step_s / 1000;
    table.rows.push_back({escaped(name), span_text(predicted), span_text(is),
                          counts ? fmt::format("{:+.0f} %", 100 * (predicted / is - 1)) : ""});
  }
  const std::string text = fmt::format(
      "Medians over {} steps, and what a plan for {} says: {} tokens/s, and {} in fact.",
      measured.steps, machine, grouped(static_cast<std::int64_t>(prediction.step.tokens_per_s)),
      grouped(static_cast<std::int64_t>(measured.tokens_per_s)));
  return section("Predicted and measured", paragraph(escaped(text)) + draw_table(table));
}

}  // namespace troupe::launch
