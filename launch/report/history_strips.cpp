#include "launch/report/history_strips.h"

#include <fmt/format.h>

#include <algorithm>

namespace troupe::launch {

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

}  // namespace troupe::launch
