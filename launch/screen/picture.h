#pragma once

#include <array>

#include "launch/screen/grid.h"
#include "launch/screen/keys.h"
#include "launch/watch/run_now.h"

namespace troupe::launch {

/// What the panes would like to show.
struct Wishes {
  int step_rows = 0;      ///< of the step: those of its ranks
  int all_step_rows = 0;  ///< with what is told below them
  int mesh_rows = 0;      ///< of the mesh: replicas times shards
  int host_rows = 0;      ///< below it: hosts of a run on several
};

/// Where the parts of a screen are. A part of height 0 is not shown.
struct Layout {
  Area head;
  std::array<Area, kNumPanes> panes;  ///< by PaneId, each with its title's line
  Area keys;
};

/// Places of all parts on a screen of this size: all panes where there is room for them, two beside
/// each other from 120 columns on, and only the one in focus on a small screen or if it is large.
Layout layout_of(int width, int height, const Wishes& wishes, const ScreenState& state);

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
