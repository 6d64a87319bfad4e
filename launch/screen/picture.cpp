#include "launch/screen/picture.h"

#include <algorithm>
#include <set>

#include "launch/report/host_table.h"
#include "launch/screen/panes.h"

namespace troupe::launch {
namespace {

constexpr int kWide = 120;         // columns from which on all panes are side by side
constexpr int kLeastColumns = 60;  // for several panes
constexpr int kLeastRows = 14;     // of the body, for several panes
constexpr int kGap = 2;            // columns between panes
constexpr int kBoxRows = 5;        // of a rank in the mesh, with its frame

Area& area_of(Layout& layout, PaneId pane) {
  return layout.panes[static_cast<std::size_t>(pane)];
}

int head_rows(int height) {
  if (height >= 30) return 4;
  return height >= 12 ? 3 : height >= 7 ? 2 : 1;
}

/// Two columns of panes, each divided by what its lower or upper pane needs.
void lay_wide(Layout& layout, const Area& body, const Wishes& wishes) {
  const int left = (body.width - kGap) / 2, right = body.width - kGap - left;
  const int most = body.height * 3 / 5;
  const int step = std::clamp(1 + wishes.all_step_rows, std::min(8, most), most);
  const int mesh =
      std::clamp(1 + kBoxRows * std::max(1, wishes.mesh_rows) + wishes.host_rows, 6, most);
  area_of(layout, PaneId::loss) = {body.x, body.y, left, body.height - step};
  area_of(layout, PaneId::step) = {body.x, body.y + body.height - step, left, step};
  area_of(layout, PaneId::mesh) = {body.x + left + kGap, body.y, right, mesh};
  area_of(layout, PaneId::events) = {body.x + left + kGap, body.y + mesh, right,
                                     body.height - mesh};
}

/// Loss and mesh beside each other, and below them step and events over the whole width.
void lay_narrow(Layout& layout, const Area& body, const Wishes& wishes) {
  const int step = std::clamp(2 + wishes.step_rows, 3, body.height * 9 / 20);
  const int events = std::max(4, body.height / 5);
  const int top = body.height - step - events;
  const int left = (body.width - kGap) * 3 / 5;
  area_of(layout, PaneId::loss) = {body.x, body.y, left, top};
  area_of(layout, PaneId::mesh) = {body.x + left + kGap, body.y, body.width - kGap - left, top};
  area_of(layout, PaneId::step) = {body.x, body.y + top, body.width, step};
  area_of(layout, PaneId::events) = {body.x, body.y + top + step, body.width, events};
}

Wishes wishes_of(const RunNow& run) {
  std::set<std::pair<int, int>> rows;
  for (const RankNow& rank : run.ranks) rows.emplace(rank.replica, rank.shard);
  constexpr int kWords = 5;  // axis, what the simulator says of the step, and a line between
  const int ranks = static_cast<int>(run.ranks.size());
  const int predicted = run.picture ? static_cast<int>(run.picture->predicted.size()) : 0;
  return {.step_rows = ranks,
          .all_step_rows = ranks + kWords + predicted,
          .mesh_rows = static_cast<int>(rows.size()),
          .host_rows = static_cast<int>(host_table(run.hosts()).size())};
}

/// By PaneId.
constexpr std::array kDraw{draw_loss, draw_mesh, draw_step, draw_events};

}  // namespace

Layout layout_of(int width, int height, const Wishes& wishes, const ScreenState& state) {
  Layout layout{};
  const int head = std::min(head_rows(height), height);
  const int keys = height > head + 1 ? 1 : 0;
  layout.head = {0, 0, width, head};
  layout.keys = {0, height - keys, width, keys};
  const Area body{0, head, width, height - head - keys};
  if (state.large || body.width < kLeastColumns || body.height < kLeastRows)
    area_of(layout, state.focus) = body;
  else if (body.width >= kWide)
    lay_wide(layout, body, wishes);
  else
    lay_narrow(layout, body, wishes);
  return layout;
}

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
  for (std::size_t pane = 0; pane < kNumPanes; ++pane) {
    const Area& area = layout.panes[pane];
    if (area.height < 1 || area.width < 1) continue;
    const bool focused = static_cast<PaneId>(pane) == state.focus;
    picture.most_scrolled[pane] = kDraw[pane]({grid, area}, run,
                                              {.focused = focused,
                                               .scroll = state.scrolled[pane],
                                               .scale = state.scale,
                                               .filter = state.filter});
    if (focused) picture.page = std::max(1, area.height - 2);
  }
  return picture;
}

}  // namespace troupe::launch
