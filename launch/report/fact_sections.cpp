#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "actors/tuning/step_meter.h"
#include "launch/charts/markup.h"
#include "launch/host/quantities.h"
#include "launch/report/curve_charts.h"
#include "launch/report/router_table.h"
#include "launch/report/run_page.h"
#include "launch/run/json_fields.h"
#include "schedules/plan/counted.h"

// What a run is, how it is, and how its loss fell.

namespace troupe::launch {
namespace {

double median_of(const std::vector<Point>& points) {
  std::vector<double> values;
  for (const Point& p : points) values.push_back(p.y);
  return actors::median(std::move(values));
}

/// How many workers were lost, and what that cost.
Fact failures_of(const History& history) {
  const auto failures = std::ranges::count(history.timeline, "failure", &TimelineEntry::kind);
  double stall = 0;
  for (const TimelineEntry& h : history.timeline)
    if (h.kind == "recovered") stall += h.stall_s;
  return {.name = "lost workers",
          .value = std::to_string(failures),
          .more = stall > 0 ? "recovered in " + span_text(stall) : ""};
}

}  // namespace

std::string loss_section(const RunReport& run) {
  const std::span<const RunReport> alone(&run, 1);
  const Axis steps = step_axis(alone);
  const std::string chart = loss_chart(losses_of(alone), steps);
  if (chart.empty()) return section("Loss", paragraph("No step has a finite loss."));
  std::vector<NamedLosses> sources = run.metrics.sources;
  for (NamedLosses& source : sources) source.losses = smooth_curve(std::move(source.losses)).smooth;
  return section("Loss", chart + history_chart(run.history, steps, run.last_step()) +
                             source_chart(std::move(sources), steps) +
                             set_chart(losses_by_set(run.metrics.evaluations), steps) +
                             small_charts(alone, steps) + router_table(run.metrics.routers) +
                             loss_numbers(run));
}

std::string settings_section(const RunReport& run) {
  Table table{.caption = "Settings that differ from the defaults",
              .head = {"key", "value", "default", "meaning"}};
  for (const ChangedKey& key : changed_keys(run.manifest))
    table.rows.push_back({text_element("code", {{"class", "key"}}, key.key), code(key.value),
                          key.fallback.empty() ? "derived" : code(key.fallback),
                          escaped(key.meaning)});
  return section("Settings that differ from the defaults", draw_table(table));
}

std::string machine_section(const RunReport& run) {
  const nlohmann::json& machine = run.machine;
  Table table{.caption = "Machine", .head = {"what", "value"}};
  const auto add = [&](const char* name, const std::string& value) {
    if (!value.empty()) table.rows.push_back({name, escaped(value)});
  };
  if (!run.history.shapes.empty())
    add("hosts of the ranks", fmt::format("{}", fmt::join(run.history.shapes.back().hosts, ", ")));
  add("launcher", text_of(machine, "host"));
  add("processor", text_of(machine, "cpu"));
  if (const auto cores = integer_of(machine, "cores"); cores > 0)
    add("cores", std::to_string(cores));
  if (const auto bytes = integer_of(machine, "memory_bytes"); bytes > 0)
    add("memory", bytes_text(bytes));
  add("ranks compute with",
      fmt::format("{}, {} each", run.manifest.text(run.manifest->cluster.device.kind),
                  schedules::counted(run.manifest->cluster.device.threads, "thread")));
  if (machine.contains("gpus"))
    for (const nlohmann::json& gpu : objects_of(machine["gpus"], "devices"))
      add("GPU",
          fmt::format("{}, {}", text_of(gpu, "name"), bytes_text(integer_of(gpu, "memory_bytes"))));
  add("Troupe", text_of(machine, "version"));
  return section("Machine", draw_table(table));
}

std::string repeat_section(const RunReport& run) {
  const auto& changed = run.manifest->changed;
  std::string content =
      paragraph(changed.empty() ? "The saved manifest repeats the run:"
                                : "The saved manifest trains all steps as the last ones. It does "
                                  "not repeat what was changed on the way:");
  std::string items;
  for (const std::string& change : changed) items += text_element("li", {}, change);
  if (!changed.empty()) content += element("ul", {}, items);
  content += element("pre", {}, code(run.repeated_by()));
  return section("Again", content);
}

std::string state_text(const RunReport& run) {
  if (!run.ending)
    return fmt::format("Step {} of {} was done when this report was written.",
                       grouped(run.last_step()), grouped(run.manifest->max_steps));
  const Ending& e = *run.ending;
  return fmt::format("Ended at {}, after step {} of {}, exit code {}: {}.", local_time_of(e),
                     grouped(e.outcome.step), grouped(run.manifest->max_steps), e.outcome.exit_code,
                     e.outcome.reason);
}

std::string state_mark(const RunReport& run) {
  if (!run.ending) return text_element("span", {{"class", "state live"}}, "running");
  const bool good = run.ending->outcome.exit_code == 0;
  return text_element("span", {{"class", good ? "state good" : "state bad"}},
                      good ? "ended in order" : "failed");
}

std::string facts_of(const RunReport& run) {
  std::vector<Fact> facts;
  const Curve loss = loss_curve(run.metrics);
  if (!loss.smooth.empty())
    facts.push_back({.name = "loss, smoothed",
                     .value = fmt::format("{:.4f}", loss.smooth.back().y),
                     .more = fmt::format("{:.4f} at first", loss.raw.front().y)});
  const auto evaluations = evaluation_points(run.metrics.evaluations);
  if (!evaluations.empty()) {
    const Point best = *std::ranges::min_element(evaluations, {}, &Point::y);
    facts.push_back({.name = "evaluation",
                     .value = fmt::format("{:.4f}", evaluations.back().y),
                     .more = fmt::format("best {:.4f} at step {}", best.y, best.x)});
  }
  facts.push_back({.name = "speed",
                   .value = grouped(std::llround(median_of(speed_curve(run.metrics).raw))),
                   .more = "tokens/s, median step"});
  if (const auto mfu = mfu_curve(run.metrics).raw; !mfu.empty())
    facts.push_back({.name = "of the peak rate",
                     .value = fmt::format("{:.1f} %", median_of(mfu)),
                     .more = "model FLOP/s, median step"});
  if (const RankTimes* gpu = fullest_gpu(run.metrics))
    facts.push_back({.name = "GPU memory",
                     .value = bytes_text(gpu->device_used_bytes),
                     .more = "at most, of " + bytes_text(gpu->device_total_bytes)});
  facts.push_back({.name = "time",
                   .value = duration_text(run.time.whole_s),
                   .more = fmt::format("for {} steps", grouped(std::ssize(run.metrics.steps)))});
  facts.push_back(
      {.name = run.manifest.text(run.manifest->model.kind) + " model",
       .value = grouped(run.parameters),
       .more = fmt::format("parameters, {} layers of width {}, {}",
                           run.manifest->model.num_hidden_layers, run.manifest->model.hidden_size,
                           run.manifest.text(run.manifest->model.dtype))});
  facts.push_back(failures_of(run.history));
  return fact_list(facts);
}

}  // namespace troupe::launch
