#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "launch/commands/options.h"
#include "launch/commands/schedule_on_paper.h"
#include "launch/host/console.h"
#include "launch/run/json_fields.h"
#include "launch/run/result_file.h"
#include "schedules/drawing/draw.h"
#include "schedules/plan/counted.h"
#include "tensor/errors/error.h"

namespace troupe::launch {
namespace {

using nlohmann::json;

/// The peak memory of each rank, in microbatches of a stage.
std::vector<double> peaks(const ScheduleOnPaper& s) {
  std::vector<double> out;
  for (const int chunks : s.simulation.peak_activations)
    out.push_back(static_cast<double>(chunks) / s.chunks);
  return out;
}

json causes_json(const ScheduleOnPaper& s) {
  json out = json::array();
  for (const auto& idle : s.simulation.causes) {
    json waiting = json::object();
    for (const auto& [rank, time] : idle.waiting) waiting[std::to_string(rank)] = time;
    out.push_back({{"warm_up", idle.warm_up},
                   {"cool_down", idle.cool_down},
                   {"communication", idle.communication},
                   {"waiting_for_rank", waiting}});
  }
  return out;
}

/// The plan's CSV as JSON arrays of strings. There may be millions of them, so no JSON tree is
/// built.
std::string actions_json(const schedules::Plan& plan) {
  const std::string csv = schedules::to_csv(plan);
  std::string out = "[[";
  out.reserve(csv.size() * 3 / 2);
  bool begin = true;  // whether a line begins here
  for (std::size_t i = 0; i < csv.size(); ++i) {
    const char c = csv[i];
    if (begin && c != '\n') out += '"';
    if (c == ',')
      out += "\",\"";
    else if (c == '\n')
      out += begin ? "" : "\"";
    else
      out += c;
    if (c == '\n' && i + 1 < csv.size()) out += "],[";
    begin = c == '\n';
  }
  return out + "]]";
}

int print_comparison(const ScheduleOptions& options) {
  if (options.csv || options.grid || !options.svg.empty() || !options.trace.empty())
    refuse("--compare prints a table of several schedules; draw one of them with --kind alone");
  const Comparison comparison = compare(options);
  print(options.json ? to_json(comparison) : to_table(comparison));
  return comparison.possible.empty() ? static_cast<int>(ErrorKind::usage) : 0;
}

void write_files(const ScheduleOptions& options, const ScheduleOnPaper& schedule) {
  const auto axis = options.axis == "time" ? schedules::Axis::time : schedules::Axis::slots;
  if (!options.svg.empty())
    ResultFile(options.svg).write(schedules::to_svg(schedule.plan, schedule.simulation, axis));
  if (!options.trace.empty())
    ResultFile(options.trace).write(schedules::to_trace(schedule.plan, schedule.simulation));
}

}  // namespace

TROUPE_JSON_FIELDS(ScheduleOnPaper, x.kind, keyed("stages", x.plan.num_ranks()), x.chunks,
                   keyed("microbatches", x.plan.num_microbatches), x.simulation.wall,
                   x.simulation.span, x.simulation.step, x.simulation.bubble_rate,
                   keyed("peak_activations", peaks(x)))
TROUPE_JSON_FIELDS(Impossible, x.kind, x.why)
TROUPE_JSON_FIELDS(Comparison, keyed("schedules", x.possible), x.impossible)

std::string to_json(const ScheduleOnPaper& s) {
  json head = s;
  head["source"] = s.source;
  head["idle"] = s.simulation.idle;
  head["idle_causes"] = causes_json(s);
  std::string text = head.dump();
  text.back() = ',';
  return text + "\"actions\":" + actions_json(s.plan) + "}\n";
}

std::string to_json(const Comparison& comparison) {
  return json(comparison).dump() + "\n";
}

std::string to_table(const Comparison& comparison) {
  std::size_t width = 8;
  for (const ScheduleOnPaper& s : comparison.possible) width = std::max(width, s.kind.size());
  std::string out = fmt::format("{:<{}}  {:>6}  {:>12}  {:>12}  {:>12}  {:>7}  {:>6}\n", "schedule",
                                width, "chunks", "step", "wall", "span", "bubble", "peak");
  for (const ScheduleOnPaper& s : comparison.possible)
    out += fmt::format("{:<{}}  {:>6}  {:>12.6g}  {:>12.6g}  {:>12.6g}  {:>7.4f}  {:>6.4g}\n",
                       s.kind, width, s.chunks, s.simulation.step, s.simulation.wall,
                       s.simulation.span, s.simulation.bubble_rate, std::ranges::max(peaks(s)));
  for (const Impossible& i : comparison.impossible)
    out += fmt::format("{} is not possible: {}\n", i.kind, i.why);
  return out;
}

std::string summary(const ScheduleOnPaper& s) {
  const auto& simulation = s.simulation;
  std::string out = fmt::format(
      "{}: {}, {} a stage, {}\n"
      "wall {:.9g}, longest span {:.9g}, bubble rate {:.4f}, step {:.9g}\n",
      s.kind, schedules::counted(s.plan.num_ranks(), "stage"),
      schedules::counted(s.chunks, "chunk"),
      schedules::counted(s.plan.num_microbatches, "microbatch"), simulation.wall, simulation.span,
      simulation.bubble_rate, simulation.step);
  if (!s.source.empty()) out += fmt::format("source: {}\n", s.source);
  out += fmt::format("{:<5} {:>6} {:>10} {:>10} {:>10} {:>10} {:>10}\n", "rank", "peak", "idle",
                     "warm-up", "waiting", "transfer", "cool-down");
  for (int rank = 0; rank < s.plan.num_ranks(); ++rank) {
    const auto& idle = simulation.causes[static_cast<std::size_t>(rank)];
    double waiting = 0;
    for (const auto& [other, time] : idle.waiting) waiting += time;
    out += fmt::format("{:<5} {:>6.4g} {:>10.6g} {:>10.6g} {:>10.6g} {:>10.6g} {:>10.6g}\n", rank,
                       peaks(s)[static_cast<std::size_t>(rank)],
                       simulation.idle[static_cast<std::size_t>(rank)], idle.warm_up, waiting,
                       idle.communication, idle.cool_down);
  }
  return out;
}

int run(const ScheduleOptions& options) {
  if (!options.compare.empty()) return print_comparison(options);
  const ScheduleOnPaper schedule = on_paper(options, options.kind);
  write_files(options, schedule);
  if (options.csv) print(schedules::to_csv(schedule.plan));
  if (options.grid) print(schedules::to_grid(schedule.plan, schedule.simulation));
  if (options.json) print(to_json(schedule));
  const bool asked =
      options.csv || options.grid || options.json || !options.svg.empty() || !options.trace.empty();
  if (!asked) print(summary(schedule));
  return 0;
}

}  // namespace troupe::launch
