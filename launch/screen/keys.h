#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "launch/charts/axis.h"

namespace troupe::launch {

/// A key that a person has pressed: a character, or one of these.
enum class KeyPress : int {
  tab = '\t',
  enter = '\r',
  escape = 0x1b,
  up = 256,
  down,
  left,
  right,
  back_tab,
  page_up,
  page_down,
  home,
  end,
};

/// Reads keys from the bytes that a terminal sends for them.
class KeyReader {
 public:
  /// The keys in these bytes and the rest of earlier ones. Sequences of keys that nobody needs are
  /// left out. An escape at the very end counts as the key of this name, because terminals send
  /// sequences in one piece.
  std::vector<KeyPress> take(std::string_view bytes);

 private:
  std::string rest_;  // the beginning of a sequence
};

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
