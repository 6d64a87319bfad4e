#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <span>

#include "launch/charts/markup.h"
#include "launch/charts/stacked_bar.h"
#include "launch/host/local_time.h"
#include "launch/host/quantities.h"
#include "launch/report/run_page.h"
#include "schedules/plan/counted.h"

// What happened to a run, and the checkpoints that it left.

namespace troupe::launch {
namespace {

/// More recoveries and changes than a reader compares are listed, but have no bars.
constexpr std::size_t kMostBars = 10;
/// The length of the shortest bar, if the longest is 1.
constexpr double kShortestBar = 0.2;
/// Consecutive rows that only tell that all goes on are one from this number on.
constexpr std::ptrdiff_t kLeastGroup = 3;

/// The longest recoveries and changes, in the order in which they are listed.
std::vector<const TimelineEntry*> longest_of(const std::vector<TimelineEntry>& timeline) {
  std::vector<const TimelineEntry*> changes;
  for (const TimelineEntry& h : timeline)
    if (h.has_phases()) changes.push_back(&h);
  std::ranges::stable_sort(changes, std::greater(), &TimelineEntry::stall_s);
  changes.resize(std::min(changes.size(), kMostBars));
  std::ranges::sort(changes);  // which point into the list
  return changes;
}

/// The phases of the longest recoveries and changes, as bars. A long one hides no short one: the
/// lengths of bars grow with the logarithm.
std::string phase_bars(const std::vector<TimelineEntry>& timeline) {
  const auto changes = longest_of(timeline);
  if (changes.empty()) return "";
  const auto [shortest, longest] = std::ranges::minmax(changes, {}, &TimelineEntry::stall_s);
  const double decades = std::log(longest->stall_s / shortest->stall_s);
  const auto length_of = [&](const TimelineEntry& h) {
    if (!(decades > 0)) return 1.0;
    return kShortestBar + (1 - kShortestBar) * std::log(h.stall_s / shortest->stall_s) / decades;
  };
  Table table{.caption = "Phases of recoveries and changes",
              .head = {"step", "what", "stall", "phases"},
              .numbers = {0, 2}};
  std::string legend;
  for (const TimelineEntry* change : changes) {
    const TimelineEntry& h = *change;
    if (legend.empty())
      for (std::size_t i = 0; i < h.phases.size(); ++i)
        legend += element("li", {}, swatch(i) + escaped(h.phases[i].name));
    std::vector<BarPart> parts;
    for (const Phase& phase : h.phases)
      parts.push_back(
          {.name = phase.name, .value = phase.seconds, .text = span_text(phase.seconds)});
    table.rows.push_back({std::to_string(h.step), escaped(h.title()), span_text(h.stall_s),
                          stacked_bar(h.title() + " at step " + std::to_string(h.step), parts,
                                      h.stall_s / length_of(h))});
  }
  const auto all =
      static_cast<std::size_t>(std::ranges::count_if(timeline, &TimelineEntry::has_phases));
  std::string note;
  if (decades > 0)
    note = "The parts of a bar are shares of its stall; its length is by the logarithm.";
  if (all > changes.size())
    note += fmt::format(" These are the {} longest of {}.", changes.size(), all);
  return element("ul", {{"class", "legend"}}, legend) + draw_table(table) + paragraph(note);
}

bool goes_on(const TimelineEntry& h) {
  return h.kind == "evaluation" || h.kind == "checkpoint";
}

Table table_of(const LocalTime& local) {
  return {.caption = "Events",
          .head = {"time (" + local.zone() + ")", "step", "event", "rank", "what"},
          .numbers = {1, 3}};
}

std::vector<std::string> event_row(const TimelineEntry& h, const LocalTime& local) {
  return {local.date(h.time), std::to_string(h.step), escaped(h.title()),
          h.rank < 0 ? "" : std::to_string(h.rank), escaped(h.sentence())};
}

/// A row for evaluations and checkpoints that follow each other, with all of them folded into it.
std::vector<std::string> group_row(std::span<const TimelineEntry> group, const LocalTime& local) {
  Table table = table_of(local);
  std::map<std::string, std::int64_t> numbers;
  std::map<std::string, std::string> newest;  // of each kind, by time
  double time = 0;
  for (const TimelineEntry& h : group) {
    table.rows.push_back(event_row(h, local));
    ++numbers[h.title()];
    if (std::string& text = newest[h.title()]; text.empty() || h.time >= time) text = h.sentence();
    time = std::max(time, h.time);
  }
  std::string counts, told;
  for (const auto& [title, number] : numbers) {
    counts += (counts.empty() ? "" : ", ") + schedules::counted(number, title);
    told += (told.empty() ? "" : "; ") + newest[title];
  }
  const auto [first, last] = std::ranges::minmax(group, {}, &TimelineEntry::step);
  return {
      local.date(time), fmt::format("{} to {}", first.step, last.step), escaped(counts), "",
      element("details", {}, text_element("summary", {}, "newest: " + told) + draw_table(table))};
}

std::string list_of(const std::vector<TimelineEntry>& timeline) {
  double newest = 0;
  for (const TimelineEntry& h : timeline) newest = std::max(newest, h.time);
  const LocalTime local(newest);
  Table table = table_of(local);
  for (auto at = timeline.begin(); at != timeline.end();) {
    const auto end = std::find_if_not(at, timeline.end(), goes_on);
    if (end - at >= kLeastGroup) {
      table.rows.push_back(group_row({at, end}, local));
      at = end;
    } else {
      table.rows.push_back(event_row(*at++, local));
    }
  }
  return draw_table(table);
}

}  // namespace

std::string events_section(const RunReport& run) {
  return section("What happened", timeline_markup(run.history.timeline));
}

std::string timeline_markup(const std::vector<TimelineEntry>& timeline) {
  return phase_bars(timeline) + list_of(timeline);
}

std::string checkpoints_section(const RunReport& run) {
  const auto& saved_ones = run.history.checkpoints;
  const LocalTime local(saved_ones.empty() ? 0 : saved_ones.back().time);
  Table table{.caption = "Checkpoints",
              .head = {"checkpoint", "size", "written at (" + local.zone() + ")", "in"},
              .numbers = {1, 3}};
  for (const CheckpointRow& row : run.checkpoints)
    table.rows.push_back({escaped(row.name), bytes_text(row.bytes),
                          row.saved ? local.date(row.saved->time) : "",
                          row.saved ? span_text(row.saved->duration_s) : ""});
  if (table.rows.empty()) return "";
  double all = 0;
  for (const SavedCheckpoint& saved : saved_ones) all += saved.duration_s;
  return section("Checkpoints",
                 paragraph(fmt::format("{} in the directory; {} written in {} in all, while "
                                       "training went on.",
                                       table.rows.size(), saved_ones.size(), span_text(all))) +
                     draw_table(table));
}

}  // namespace troupe::launch
