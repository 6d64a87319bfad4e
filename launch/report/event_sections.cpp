#include <fmt/format.h>

#include <algorithm>

#include "launch/charts/html.h"
#include "launch/charts/stacked_bar.h"
#include "launch/host/quantities.h"
#include "launch/report/sections.h"

// What happened to a run, and the checkpoints that it left.

namespace troupe::launch {
namespace {

/// The phases of all recoveries and changes, as bars of one scale.
std::string phase_bars(const std::vector<Happening>& happenings) {
  double longest = 0;
  for (const Happening& h : happenings)
    if (h.has_phases()) longest = std::max(longest, h.stall_s);
  if (longest == 0) return "";
  Table table{.caption = "Phases of recoveries and changes",
              .head = {"step", "what", "stall", "phases"},
              .rows = {},
              .numbers = {0, 2}};
  std::string legend;
  for (const Happening& h : happenings) {
    if (!h.has_phases()) continue;
    if (legend.empty())
      for (std::size_t i = 0; i < h.phases.size(); ++i)
        legend += element("li", {}, swatch(i) + escaped(h.phases[i].name));
    std::vector<BarPart> parts;
    for (const Phase& phase : h.phases)
      parts.push_back(
          {.name = phase.name, .value = phase.seconds, .text = span_text(phase.seconds)});
    table.rows.push_back(
        {std::to_string(h.step), escaped(h.title()), span_text(h.stall_s),
         stacked_bar(h.title() + " at step " + std::to_string(h.step), parts, longest)});
  }
  return element("ul", {{"class", "legend"}}, legend) + draw_table(table);
}

std::string list_of(const std::vector<Happening>& happenings) {
  Table table{.caption = "Events",
              .head = {"time (UTC)", "step", "event", "rank", "what"},
              .rows = {},
              .numbers = {1, 3}};
  for (const Happening& h : happenings)
    table.rows.push_back({utc_text(h.time), std::to_string(h.step), escaped(h.title()),
                          h.rank < 0 ? "" : std::to_string(h.rank), escaped(h.sentence())});
  return draw_table(table);
}

}  // namespace

std::string events_section(const RunReport& run) {
  return section("What happened", happenings_markup(run.history.happenings));
}

std::string happenings_markup(const std::vector<Happening>& happenings) {
  return phase_bars(happenings) + list_of(happenings);
}

std::string checkpoints_section(const RunReport& run) {
  Table table{.caption = "Checkpoints",
              .head = {"checkpoint", "size", "written at (UTC)", "in"},
              .rows = {},
              .numbers = {1, 3}};
  for (const CheckpointRow& row : run.checkpoints)
    table.rows.push_back({escaped(row.name), bytes_text(row.bytes),
                          row.saved ? utc_text(row.saved->time) : "",
                          row.saved ? span_text(row.saved->duration_s) : ""});
  if (table.rows.empty()) return "";
  double all = 0;
  for (const SavedCheckpoint& saved : run.history.checkpoints) all += saved.duration_s;
  const std::size_t count = run.history.checkpoints.size();
  return section("Checkpoints",
                 paragraph(fmt::format("{} in the directory; {} written in {} in all, while "
                                       "training went on.",
                                       table.rows.size(), count, span_text(all))) +
                     draw_table(table));
}

}  // namespace troupe::launch
