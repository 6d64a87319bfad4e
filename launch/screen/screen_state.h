#pragma once

#include <array>
#include <string>
#include <vector>

#include "launch/charts/axis.h"
#include "launch/screen/keys.h"

namespace troupe::launch {

enum class PaneId { loss, mesh, step, events };
inline constexpr int kNumPanes = 4;

/// What a person has chosen to see.
struct ScreenState {
  PaneId focus = PaneId::events;  ///< the pane that arrows scroll
  bool large = false;             ///< it has the whole screen
  bool help = false;
  bool frozen = false;  ///< the picture stands still; the run goes on
  Scale scale = Scale::linear;
  std::string filter;  ///< kind of the events that are shown; empty: all but routine
  std::array<int, kNumPanes> scrolled{};  ///< lines off the top, by pane

  int& scroll() { return scrolled[static_cast<std::size_t>(focus)]; }
};

/// Obeys a key. `kinds` are the kinds of events there are, between which the filter changes, and
/// `page` the lines of the pane in focus. Returns false if the key means to leave.
bool obey(KeyPress key, ScreenState& state, const std::vector<std::string>& kinds, int page);

}  // namespace troupe::launch
