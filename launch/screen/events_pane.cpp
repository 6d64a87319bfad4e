#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "launch/host/local_time.h"
#include "launch/host/quantities.h"
#include "launch/screen/panes.h"

namespace troupe::launch {
namespace {

constexpr int kTitle = 13;         // columns of an event's title
constexpr int kTimedColumns = 60;  // from which on the time is shown
constexpr int kWrappedRows = 10;   // from which on long texts go on in the next line
constexpr int kLeastText = 12;     // columns

Look look_of(const std::string& kind) {
  if (kind == "failure" || kind == "not_finite") return Look::bad;
  if (kind == "recovered") return Look::good;
  if (kind == "rescaled" || kind == "membership" || kind == "launch") return Look::live;
  return kind == "straggler" || kind == "large_gradient" ? Look::waiting : Look::plain;
}

/// What is shown, newest first.
std::vector<const TimelineEntry*> shown(const RunNow& run, std::string_view filter) {
  std::vector<const TimelineEntry*> all;
  for (const auto* timeline : {&run.timeline, &run.routine})
    for (const TimelineEntry& h : *timeline)
      if (filter.empty() ? timeline == &run.timeline : h.kind == filter) all.push_back(&h);
  std::ranges::stable_sort(all, std::greater(), &TimelineEntry::time);
  return all;
}

/// What happened, with its rank if that is not what it begins with.
std::string told(const TimelineEntry& event) {
  const std::string rank = fmt::format("rank {}", event.rank), text = event.sentence();
  return event.rank < 0 || text.starts_with(rank + " ") ? text : rank + ": " + text;
}

/// The lines of the events, of which each may have several.
struct Line {
  const TimelineEntry* event = nullptr;  ///< null: the line before goes on
  std::string text;
};

std::vector<Line> lines_of(const std::vector<const TimelineEntry*>& events, int columns,
                           bool wraps) {
  std::vector<Line> lines;
  for (const TimelineEntry* event : events) {
    const std::string text = told(*event);
    if (!wraps || columns_of(text) <= columns) {
      lines.push_back({event, cut(text, columns)});
      continue;
    }
    const TimelineEntry* beginning = event;
    for (std::string& part : wrapped(text, columns))
      lines.push_back({std::exchange(beginning, nullptr), std::move(part)});
  }
  return lines;
}

}  // namespace

std::vector<std::string> kinds_of_events(const RunNow& run) {
  std::vector<std::string> kinds;
  for (const auto* timeline : {&run.timeline, &run.routine})
    for (const TimelineEntry& h : *timeline)
      if (std::ranges::find(kinds, h.kind) == kinds.end()) kinds.push_back(h.kind);
  return kinds;
}

int draw_events(const Canvas& canvas, const RunNow& run, const PaneView& view) {
  const auto events = shown(run, view.filter);
  const std::string what =
      view.filter.empty() ? "all"
                          : TimelineEntry{.kind = std::string(view.filter), .text = ""}.title();
  const bool timed = canvas.width() >= kTimedColumns;
  const LocalTime local(events.empty() ? run.time : events.front()->time);
  Canvas inner = titled(
      canvas, "events",
      fmt::format("{}: {}{}", what, events.size(), timed ? "  times in " + local.zone() : ""),
      view);
  const int step = timed ? 10 : 0, title = step + 9, text = title + kTitle + 1;
  const int columns = std::max(kLeastText, inner.width() - text);
  const auto lines = lines_of(events, columns, inner.height() >= kWrappedRows);
  const int most = std::max(0, static_cast<int>(lines.size()) - inner.height());
  const int first = std::min(view.scroll, most);
  for (int y = 0; y < inner.height() && first + y < std::ssize(lines); ++y) {
    const Line& line = lines[static_cast<std::size_t>(first + y)];
    if (line.event) {
      if (timed) inner.text(0, y, local.clock(line.event->time), {.look = Look::soft});
      inner.text_before(step + 7, y, grouped(line.event->step), {.look = Look::soft});
      inner.text(title, y, cut(line.event->title(), kTitle),
                 {.look = look_of(line.event->kind), .bold = true});
    }
    inner.text(text, y, line.text);
  }
  if (events.empty())
    inner.text(0, 0, cut("Nothing has happened yet.", inner.width()), {.look = Look::soft});
  return most;
}

}  // namespace troupe::launch
