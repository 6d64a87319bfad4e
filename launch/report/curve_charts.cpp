#include "launch/report/curve_charts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "launch/charts/html.h"
#include "launch/charts/line_chart.h"
#include "launch/host/quantities.h"

namespace troupe::launch {
namespace {

constexpr int kStepTicks = 8, kSmallTicks = 4;
constexpr std::size_t kLooks = 6;  // s0 to s5 of style.css

std::string look(const char* kind, std::size_t run) {
  return fmt::format("{} s{}", kind, run % kLooks);
}

/// "loss", or "loss of lake" where there are several runs.
std::string named(const std::string& what, const std::vector<Losses>& runs, std::size_t i) {
  return runs.size() == 1 ? what : what + " of " + runs[i].name;
}

/// What the loss chart says where one points at it.
std::vector<Hint> loss_hints(const Curve& loss) {
  constexpr std::size_t kHints = 100;
  std::vector<Hint> hints;
  const std::size_t per_hint = (loss.raw.size() + kHints - 1) / kHints;
  auto smooth = loss.smooth.begin();
  for (std::size_t i = 0; i + 1 < loss.raw.size(); i += per_hint) {
    const std::size_t next = std::min(i + per_hint, loss.raw.size() - 1);
    while (smooth + 1 != loss.smooth.end() && smooth->x < loss.raw[i].x) ++smooth;
    hints.push_back({.from = loss.raw[i].x,
                     .to = loss.raw[next].x,
                     .text = fmt::format("step {}: loss {:.4f}, smoothed {:.4f}", loss.raw[i].x,
                                         loss.raw[i].y, smooth->y)});
  }
  return hints;
}

LineChart empty_small_chart(const char* name, const Axis& steps) {
  return {.label = fmt::format("{} by step", name),
          .x_name = "step",
          .height = 150,
          .x = counting_axis(steps.low, steps.high, kSmallTicks),
          .from_zero = true,
          .series = {}};
}

std::string under_its_name(const char* name, const LineChart& chart) {
  const std::string drawn = draw(chart);
  return drawn.empty() ? "" : element("div", {}, text_element("h3", {}, name) + drawn);
}

void add_curve(LineChart& chart, Curve curve) {
  chart.series.push_back({.name = "each", .look = look("raw", 0), .points = std::move(curve.raw)});
  chart.series.push_back(
      {.name = "smooth", .look = look("smooth", 0), .points = std::move(curve.smooth)});
}

using CurveOf = Curve (*)(const Metrics&);

/// A small chart of a figure of all runs.
std::string small_chart_of(const std::vector<NamedRun>& runs, const Axis& steps, const char* name,
                           CurveOf curve_of) {
  if (runs.size() == 1) return small_chart(name, curve_of(runs.front().run->metrics), steps);
  LineChart chart = empty_small_chart(name, steps);
  for (std::size_t i = 0; i < runs.size(); ++i)
    chart.series.push_back({.name = "smooth",
                            .look = look("smooth", i),
                            .points = curve_of(runs[i].run->metrics).smooth});
  return under_its_name(name, chart);
}

}  // namespace

Axis step_axis(const std::vector<NamedRun>& runs) {
  double first = INFINITY, last = 0;
  for (const NamedRun& each : runs) {
    first = std::min(first, static_cast<double>(each.run->metrics.steps.front().step) - 1);
    last = std::max(last, static_cast<double>(each.run->last_step()));
  }
  return counting_axis(first, last, kStepTicks);
}

std::vector<Losses> losses_of(const std::vector<NamedRun>& runs) {
  std::vector<Losses> losses;
  for (const NamedRun& each : runs)
    losses.push_back({.name = each.name,
                      .training = loss_curve(each.run->metrics),
                      .evaluations = evaluation_points(each.run->metrics.evaluations)});
  return losses;
}

std::string loss_chart(std::vector<Losses> runs, const Axis& steps, Scale scale) {
  LineChart chart{.label = "Loss by step",
                  .x_name = "step",
                  .height = 300,
                  .x = steps,
                  .scale = scale,
                  .series = {}};
  std::vector<Series> evaluations;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    Curve& loss = runs[i].training;
    if (loss.raw.empty()) continue;
    chart.label += fmt::format("; {} from {:.4g} to {:.4g}", named("loss", runs, i),
                               loss.raw.front().y, loss.smooth.back().y);
    if (runs.size() == 1) {
      chart.hints = loss_hints(loss);
      chart.series.push_back(
          {.name = "each step", .look = look("raw", i), .points = std::move(loss.raw)});
    }
    chart.series.push_back({.name = named(runs.size() == 1 ? "smoothed" : "loss", runs, i),
                            .look = look("smooth", i),
                            .points = std::move(loss.smooth)});
    if (!runs[i].evaluations.empty())
      evaluations.push_back({.name = named("evaluation", runs, i),
                             .look = look("evaluation", i),
                             .points = std::move(runs[i].evaluations),
                             .shape = Series::Shape::points});
  }
  std::ranges::move(evaluations, std::back_inserter(chart.series));
  const std::string drawn = draw(chart);
  if (drawn.empty()) return "";
  const std::string kind = runs.size() == 1 ? "single" : "several";
  return element("div", {{"class", kind}}, legend(chart.series) + drawn);
}

std::string small_chart(const char* name, Curve curve, const Axis& steps) {
  LineChart chart = empty_small_chart(name, steps);
  add_curve(chart, std::move(curve));
  return under_its_name(name, chart);
}

std::string source_chart(std::vector<SourceCurve> sources, const Axis& steps) {
  LineChart chart{.label = "Loss of each source by step",
                  .x_name = "step",
                  .height = 200,
                  .x = steps,
                  .series = {}};
  Table table{.caption = "Sources",
              .head = {"source", "loss, smoothed", "tokens", "share"},
              .rows = {},
              .numbers = {1, 2, 3}};
  double tokens = 0;
  for (const SourceCurve& source : sources) tokens += source.tokens;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    SourceCurve& source = sources[i];
    if (source.loss.raw.empty()) continue;
    table.rows.push_back({escaped(source.name), fmt::format("{:.4f}", source.loss.smooth.back().y),
                          grouped(std::llround(source.tokens)),
                          fmt::format("{:.1f} %", 100 * source.tokens / tokens)});
    chart.series.push_back(
        {.name = source.name, .look = look("smooth", i), .points = std::move(source.loss.smooth)});
  }
  if (table.rows.empty()) return "";
  return text_element("h3", {}, "loss of each source, smoothed") + legend(chart.series) +
         draw(chart) + draw_table(table);
}

std::string set_chart(std::vector<SetLosses> sets, const Axis& steps) {
  LineChart chart{.label = "Loss on each evaluation set by step",
                  .x_name = "step",
                  .height = 200,
                  .x = steps,
                  .series = {}};
  Table table{.caption = "Evaluation sets",
              .head = {"set", "loss", "lowest", "at step"},
              .rows = {},
              .numbers = {1, 2, 3}};
  for (std::size_t i = 0; i < sets.size(); ++i) {
    if (sets[i].losses.empty()) continue;
    const Point lowest = *std::ranges::min_element(sets[i].losses, {}, &Point::y);
    table.rows.push_back({escaped(sets[i].name), fmt::format("{:.4f}", sets[i].losses.back().y),
                          fmt::format("{:.4f}", lowest.y), fmt::format("{}", lowest.x)});
    chart.series.push_back(
        {.name = sets[i].name, .look = look("smooth", i), .points = std::move(sets[i].losses)});
  }
  if (table.rows.empty()) return "";
  return text_element("h3", {}, "loss on each evaluation set") + legend(chart.series) +
         draw(chart) + draw_table(table);
}

std::vector<SourceCurve> source_curves(const Metrics& metrics) {
  std::vector<SourceCurve> curves;
  for (const SourceRow& source : metrics.sources)
    curves.push_back(
        {.name = source.name, .tokens = source.tokens, .loss = smooth_curve(source.losses)});
  return curves;
}

std::string small_charts(const std::vector<NamedRun>& runs, const Axis& steps) {
  const std::string charts = small_chart_of(runs, steps, "tokens/s", speed_curve) +
                             small_chart_of(runs, steps, "norm of the gradient", norm_curve) +
                             small_chart_of(runs, steps, "learning rate", rate_curve) +
                             small_chart_of(runs, steps, "MFU, % of the peak rate", mfu_curve);
  return charts.empty() ? "" : element("div", {{"class", "small"}}, charts);
}

std::string loss_numbers(const RunReport& run) {
  constexpr std::size_t kRows = 12;
  Table table{.caption = "Loss at some steps",
              .head = {"step", "loss", "smoothed", "norm", "learning rate", "tokens/s"},
              .rows = {},
              .numbers = {0, 1, 2, 3, 4, 5}};
  const auto& steps = run.metrics.steps;
  const Curve loss = loss_curve(run.metrics);
  for (std::size_t n = 0; n < std::min(kRows, steps.size()); ++n) {
    const std::size_t i = steps.size() <= kRows ? n : n * (steps.size() - 1) / (kRows - 1);
    const StepRow& row = steps[i];
    const auto smooth = std::ranges::find(loss.smooth, static_cast<double>(row.step), &Point::x);
    table.rows.push_back(
        {std::to_string(row.step), fmt::format("{:.4f}", row.loss),
         smooth == loss.smooth.end() ? "" : fmt::format("{:.4f}", smooth->y),
         fmt::format("{:.3f}", row.grad_norm), fmt::format("{:.3g}", row.lr),
         std::isfinite(row.tokens_per_s()) ? grouped(std::llround(row.tokens_per_s())) : ""});
  }
  return element("details", {},
                 text_element("summary", {}, "The curves in numbers") + draw_table(table));
}

}  // namespace troupe::launch
