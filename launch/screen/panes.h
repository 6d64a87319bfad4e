#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "launch/charts/axis.h"
#include "launch/report/history.h"
#include "launch/screen/grid.h"
#include "launch/watch/run_now.h"

// The parts of the screen. Each draws a run on a canvas of any size, and leaves out what has no
// room. A pane's first line is its title.

namespace troupe::launch {

struct PaneView {
  bool focused = false;
  int scroll = 0;  ///< lines off the top; more than there are count as all but the last page
  Scale scale = Scale::linear;   ///< of the loss
  std::string_view filter = {};  ///< kind of the events that are shown; empty: all but routine
};

/// A pane's title, with what is shown of its subject. Returns the canvas below it.
Canvas titled(const Canvas& canvas, std::string_view title, std::string_view detail,
              const PaneView& view);

/// An axis's labels below their ticks, without those that have no room; `last` is the column of the
/// axis's end.
void draw_axis(Canvas row, const Axis& axis, const std::vector<std::string>& labels, int last);

/// State, progress and the newest numbers.
void draw_head(Canvas canvas, const RunNow& run);

// These return the most lines that can be scrolled off.

/// The curve of the loss in dots, as measured and smoothed, with the evaluations.
int draw_loss(const Canvas& canvas, const RunNow& run, const PaneView& view);
/// The ranks in the shape of the mesh: a row for each replica, in it its stages from left to right,
/// with their shards one below the other. Where a replica has too many stages for a row, they go on
/// in the next.
int draw_mesh(const Canvas& canvas, const RunNow& run, const PaneView& view);
/// The newest recorded step, a row for each rank: F, B, I, W with the number of their microbatch,
/// and waits for messages.
int draw_step(const Canvas& canvas, const RunNow& run, const PaneView& view);
/// What happened, newest first.
int draw_events(const Canvas& canvas, const RunNow& run, const PaneView& view);
/// The kinds of what happened, those that are routine last.
std::vector<std::string> kinds_of_events(const RunNow& run);

/// The keys in a line; as many as fit. At its end stands how many events were missed.
void draw_keys(Canvas canvas, bool frozen, std::uint64_t missed);
/// All keys and signs.
void draw_help(const Canvas& canvas);

}  // namespace troupe::launch
