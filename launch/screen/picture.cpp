#include "launch/screen/picture.h"

#include <algorithm>
#include <set>

#include "launch/screen/layout.h"
#include "launch/screen/panes.h"

namespace troupe::launch {
namespace {

Wishes wishes_of(const RunNow& run) {
  std::set<std::pair<int, int>> rows;
  for (const RankNow& rank : run.ranks) rows.emplace(rank.replica, rank.shard);
  constexpr int kWords = 5;  // axis, what the simulator says of the step, and a line between
  const int ranks = static_cast<int>(run.ranks.size());
  const int predicted = run.picture ? static_cast<int>(run.picture->predicted.size()) : 0;
  return {.step_rows = ranks,
          .all_step_rows = ranks + kWords + predicted,
          .mesh_rows = static_cast<int>(rows.size())};
}

int draw_pane(PaneId pane, const Canvas& canvas, const RunNow& run, const ScreenState& state) {
  const PaneView view{.focused = pane == state.focus,
                      .scroll = state.scrolled[static_cast<std::size_t>(pane)]};
  switch (pane) {
    case PaneId::loss:
      draw_loss(canvas, run, state.scale, view);
      return 0;
    case PaneId::mesh:
      return draw_mesh(canvas, run, view);
    case PaneId::step:
      return draw_step(canvas, run, view);
    case PaneId::events:
      break;
  }
  return draw_events(canvas, run, state.filter, view);
}

}  // namespace

ScreenPicture draw_screen(const RunNow& run, const ScreenState& state, int width, int height,
                          std::uint64_t missed) {
  ScreenPicture picture{.grid = Grid(width, height)};
  Grid& grid = picture.grid;
  const Layout layout = layout_of(grid.width(), grid.height(), wishes_of(run), state);
  draw_head({grid, layout.head}, run);
  draw_keys({grid, layout.keys}, state.frozen, missed);
  if (state.help) {
    const int top = layout.head.height;
    draw_help({grid, {0, top, grid.width(), grid.height() - top - layout.keys.height}});
    return picture;
  }
  for (int pane = 0; pane < kNumPanes; ++pane) {
    const Area& area = layout.panes[static_cast<std::size_t>(pane)];
    if (area.height < 1 || area.width < 1) continue;
    const auto id = static_cast<PaneId>(pane);
    picture.most_scrolled[static_cast<std::size_t>(pane)] = draw_pane(id, {grid, area}, run, state);
    if (id == state.focus) picture.page = std::max(1, area.height - 2);
  }
  return picture;
}

}  // namespace troupe::launch
