#include "launch/report/run_page.h"

#include <fmt/format.h>

#include <set>

#include "launch/charts/markup.h"
#include "launch/host/local_time.h"
#include "launch/host/quantities.h"
#include "launch/report/curve_charts.h"

namespace troupe::launch {
namespace {

std::string footer(double now) {
  return text_element("footer", {}, "Written by troupe report at " + time_text(now) + ".");
}

std::string loss_of(const std::vector<Point>& points) {
  return points.empty() ? "" : fmt::format("{:.4f}", points.back().y);
}

std::string run_table(const std::vector<RunReport>& runs, const std::vector<std::string>& names) {
  Table table{.caption = "Runs",
              .head = {"run", "state", "steps", "loss, smoothed", "evaluation", "time",
                       "parameters", "shape", "directory"},
              .numbers = {2, 3, 4, 5, 6}};
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const RunReport& run = runs[i];
    const auto& shapes = run.history.shapes;
    table.rows.push_back({escaped(names[i]), state_mark(run), grouped(run.last_step()),
                          loss_of(loss_curve(run.metrics).smooth),
                          loss_of(evaluation_points(run.metrics.evaluations)),
                          duration_text(run.time.whole_s), grouped(run.parameters),
                          shapes.empty() ? "" : escaped(shapes.back().text()),
                          code(run.directory)});
  }
  return draw_table(table);
}

std::string difference_table(const std::vector<RunReport>& runs,
                             const std::vector<std::string>& names) {
  Table table{.caption = "Settings that differ", .head = {"key"}};
  table.head.insert(table.head.end(), names.begin(), names.end());
  for (const DifferentKey& key : different_keys(runs)) {
    table.rows.push_back({code(key.key)});
    for (const std::string& value : key.values)
      table.rows.back().push_back(value.empty() ? "" : code(value));
  }
  return table.rows.empty() ? paragraph("They have the same settings.") : draw_table(table);
}

}  // namespace

std::vector<std::string> names_of(std::span<const RunReport> runs) {
  std::vector<std::string> names, directories;
  for (const RunReport& run : runs) {
    names.push_back(run.name());
    directories.push_back(run.directory);
  }
  const std::set<std::string> different(names.begin(), names.end());
  return different.size() == names.size() ? names : directories;
}

std::string run_page(const RunReport& run, double now) {
  const std::string header =
      element("header", {}, text_element("h1", {}, run.name()) + state_mark(run));
  return document({.title = run.name() + " - troupe report",
                   .body = header + paragraph(state_text(run)) + facts_of(run) + loss_section(run) +
                           time_section(run) + prediction_section(run) + hosts_section(run) +
                           step_section(run) + events_section(run) + checkpoints_section(run) +
                           settings_section(run) + machine_section(run) + repeat_section(run) +
                           footer(now)});
}

std::string comparison_page(const std::vector<RunReport>& runs, double now) {
  const std::vector<std::string> names = names_of(runs);
  const Axis steps = step_axis(runs);
  const std::string title = fmt::format("{} runs", runs.size());
  return document(
      {.title = title + " - troupe report",
       .body = element("header", {}, text_element("h1", {}, title)) +
               section("Runs", run_table(runs, names)) +
               section("Loss", paragraph("Training losses, and speeds and norms, are smoothed.") +
                                   loss_chart(losses_of(runs), steps) + small_charts(runs, steps)) +
               section("Settings that differ", difference_table(runs, names)) + footer(now)});
}

}  // namespace troupe::launch
