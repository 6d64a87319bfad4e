#include "launch/screen/layout.h"

#include <algorithm>

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
  const int mesh = std::clamp(1 + kBoxRows * std::max(1, wishes.mesh_rows), 6, most);
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

}  // namespace troupe::launch
