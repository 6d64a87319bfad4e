#pragma once

#include <array>

#include "launch/screen/grid.h"
#include "launch/screen/screen_state.h"
#include "launch/watch/run_now.h"

namespace troupe::launch {

/// A screen that shows a run.
struct ScreenPicture {
  Grid grid;
  std::array<int, kNumPanes> most_scrolled{};  ///< lines that can be scrolled off, by pane
  int page = 1;                                ///< lines of the pane in focus
};

/// Draws a run as `state` asks for it. `missed` is the number of events that were lost. A pure
/// function.
ScreenPicture draw_screen(const RunNow& run, const ScreenState& state, int width, int height,
                          std::uint64_t missed);

}  // namespace troupe::launch
