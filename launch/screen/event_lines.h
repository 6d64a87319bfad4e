#pragma once

#include <cstdint>
#include <string>

#include "actors/monitors/event.h"
#include "launch/run/step_times.h"

namespace troupe::launch {

/// Tells of events in lines for people, for outputs that are no screen.
class EventLines {
 public:
  explicit EventLines(std::int64_t max_steps) : max_steps_(max_steps) {}

  /// A line, with its end; empty for signs of life and single actions. No character of it controls
  /// a terminal.
  std::string line_of(const actors::RunEvent& event);

 private:
  const std::int64_t max_steps_;
  StepTimes step_times_;
};

}  // namespace troupe::launch
