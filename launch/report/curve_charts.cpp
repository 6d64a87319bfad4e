#include "launch/report/curve_charts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <utility>

#include "launch/charts/line_chart.h"
#include "launch/charts/markup.h"
#include "launch/charts/timeline.h"
#include "launch/host/quantities.h"
#include "launch/report/run_page.h"

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

/// The figures that have a small chart.
constexpr std::array<std::pair<const char*, Curve (*)(const Metrics&)>, 6> kFigures{
    {{"tokens/s", speed_curve},
     {"norm of the gradient", norm_curve},
     {"learning rate", rate_curve},
     {"MFU, % of the peak rate", mfu_curve},
     {"loss of routers", aux_curve},
     {"load of the busiest expert, 1: even", load_curve}}};

/// Draws a curve, under `title`, and a row of the table for each of those that have points. A row
/// is the name and `numbers_of`.
template <typename NumbersOf>
std::string beside_each_other(const char* title, LineChart chart, Table table,
                              std::vector<NamedLosses> all, NumbersOf numbers_of) {
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].losses.empty()) continue;
    table.rows.push_back({escaped(all[i].name)});
    std::ranges::move(numbers_of(all[i]), std::back_inserter(table.rows.back()));
    chart.series.push_back(
        {.name = all[i].name, .look = look("smooth", i), .points = std::move(all[i].losses)});
  }
  if (table.rows.empty()) return "";
  return text_element("h3", {}, title) + legend(chart.series) + draw(chart) + draw_table(table);
}

/// The cluster's shapes, and what happened at which step, up to the last one.
std::vector<Strip> strips_of(const History& history, std::int64_t last_step) {
  const auto last = static_cast<double>(last_step);
  Strip shapes{.name = "shape"}, failures{.name = "failures", .look = Strip::Look::cross};
  Strip changes{.name = "events", .look = Strip::Look::triangle};
  Strip saved{.name = "saved"};
  for (std::size_t i = 0; i < history.shapes.size(); ++i) {
    const bool newest = i + 1 == history.shapes.size();
    const double to = newest ? last : static_cast<double>(history.shapes[i + 1].after_step);
    shapes.spans.push_back({.from = static_cast<double>(history.shapes[i].after_step),
                            .to = std::min(to, last),
                            .text = history.shapes[i].text()});
  }
  for (const TimelineEntry& h : history.timeline) {
    if (h.kind == "note" || h.kind == "ended" || h.kind == "recovered") continue;
    Strip& strip = h.kind == "failure" ? failures : changes;
    strip.marks.push_back({.x = std::min(static_cast<double>(h.step), last),
                           .text = fmt::format("step {}: {}", h.step, h.text)});
  }
  for (const SavedCheckpoint& c : history.checkpoints)
    if (c.step <= last_step)
      saved.marks.push_back(
          {.x = static_cast<double>(c.step), .text = fmt::format("checkpoint of step {}", c.step)});
  std::vector<Strip> strips{shapes};
  for (const Strip& strip : {failures, changes, saved})
    if (!strip.marks.empty()) strips.push_back(strip);
  return strips;
}

}  // namespace

Axis step_axis(std::span<const RunReport> runs) {
  double first = INFINITY, last = 0;
  for (const RunReport& run : runs) {
    first = std::min(first, static_cast<double>(run.metrics.steps.front().step) - 1);
    last = std::max(last, static_cast<double>(run.last_step()));
  }
  return counting_axis(first, last, kStepTicks);
}

std::vector<Losses> losses_of(std::span<const RunReport> runs) {
  std::vector<Losses> losses;
  const std::vector<std::string> names = names_of(runs);
  for (std::size_t i = 0; i < runs.size(); ++i)
    losses.push_back({.name = names[i],
                      .training = loss_curve(runs[i].metrics),
                      .evaluations = evaluation_points(runs[i].metrics.evaluations)});
  return losses;
}

std::string loss_chart(std::vector<Losses> runs, const Axis& steps, Scale scale) {
  LineChart chart{
      .label = "Loss by step", .x_name = "step", .height = 300, .x = steps, .scale = scale};
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

std::string history_chart(const History& history, const Axis& steps, std::int64_t last_step) {
  return draw_timeline("What happened at which step", steps, strips_of(history, last_step));
}

std::string small_chart(const char* name, std::vector<Curve> curves, const Axis& steps) {
  LineChart chart{.label = fmt::format("{} by step", name),
                  .x_name = "step",
                  .height = 150,
                  .x = counting_axis(steps.low, steps.high, kSmallTicks),
                  .from_zero = true};
  if (curves.size() == 1)
    chart.series.push_back(
        {.name = "each", .look = look("raw", 0), .points = std::move(curves.front().raw)});
  for (std::size_t i = 0; i < curves.size(); ++i)
    chart.series.push_back(
        {.name = "smooth", .look = look("smooth", i), .points = std::move(curves[i].smooth)});
  const std::string drawn = draw(chart);
  return drawn.empty() ? "" : element("div", {}, text_element("h3", {}, name) + drawn);
}

std::string source_chart(std::vector<NamedLosses> sources, const Axis& steps) {
  double tokens = 0;
  for (const NamedLosses& source : sources) tokens += source.tokens;
  return beside_each_other(
      "loss of each source, smoothed",
      {.label = "Loss of each source by step", .x_name = "step", .x = steps},
      {.caption = "Sources",
       .head = {"source", "loss, smoothed", "tokens", "share"},
       .numbers = {1, 2, 3}},
      std::move(sources), [&](const NamedLosses& source) -> std::vector<std::string> {
        return {fmt::format("{:.4f}", source.losses.back().y), grouped(std::llround(source.tokens)),
                fmt::format("{:.1f} %", 100 * source.tokens / tokens)};
      });
}

std::string set_chart(std::vector<NamedLosses> sets, const Axis& steps) {
  return beside_each_other(
      "loss on each evaluation set",
      {.label = "Loss on each evaluation set by step", .x_name = "step", .x = steps},
      {.caption = "Evaluation sets",
       .head = {"set", "loss", "lowest", "at step"},
       .numbers = {1, 2, 3}},
      std::move(sets), [](const NamedLosses& set) -> std::vector<std::string> {
        const Point lowest = *std::ranges::min_element(set.losses, {}, &Point::y);
        return {fmt::format("{:.4f}", set.losses.back().y), fmt::format("{:.4f}", lowest.y),
                fmt::format("{}", lowest.x)};
      });
}

std::string small_charts(std::span<const RunReport> runs, const Axis& steps) {
  std::string charts;
  for (const auto& [name, curve_of] : kFigures) {
    std::vector<Curve> curves;
    for (const RunReport& run : runs) curves.push_back(curve_of(run.metrics));
    charts += small_chart(name, std::move(curves), steps);
  }
  return charts.empty() ? "" : element("div", {{"class", "small"}}, charts);
}

std::string loss_numbers(const RunReport& run) {
  constexpr std::size_t kRows = 12;
  Table table{.caption = "Loss at some steps",
              .head = {"step", "loss", "smoothed", "norm", "learning rate", "tokens/s"},
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
