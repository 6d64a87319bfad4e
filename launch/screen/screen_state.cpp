#include "launch/screen/screen_state.h"

#include <algorithm>
#include <utility>

namespace troupe::launch {
namespace {

/// More lines than a pane has; the picture knows how many it has.
constexpr int kFar = 1 << 20;

void move_focus(ScreenState& state, int by) {
  const int next = (static_cast<int>(state.focus) + by + kNumPanes) % kNumPanes;
  state.focus = static_cast<PaneId>(next);
}

/// The kind after the filter's, or before it; behind the last one all are shown again.
void change_filter(ScreenState& state, const std::vector<std::string>& kinds, int by) {
  std::vector<std::string> choices{""};
  choices.insert(choices.end(), kinds.begin(), kinds.end());
  const auto now = std::ranges::find(choices, state.filter);
  const auto at = now == choices.end() ? 0 : now - choices.begin();
  state.filter =
      choices[static_cast<std::size_t>((at + by + std::ssize(choices)) % std::ssize(choices))];
  state.scrolled[static_cast<std::size_t>(PaneId::events)] = 0;
}

/// Obeys a key that moves.
void move(KeyPress key, ScreenState& state, int page) {
  int& scroll = state.scroll();
  if (key == KeyPress::up || key == KeyPress{'k'}) --scroll;
  if (key == KeyPress::down || key == KeyPress{'j'}) ++scroll;
  if (key == KeyPress::page_up) scroll -= page;
  if (key == KeyPress::page_down) scroll += page;
  if (key == KeyPress::home) scroll = 0;
  if (key == KeyPress::end) scroll = kFar;
  scroll = std::max(0, scroll);
  if (key == KeyPress::tab || key == KeyPress::right) move_focus(state, 1);
  if (key == KeyPress::back_tab || key == KeyPress::left) move_focus(state, -1);
}

}  // namespace

bool obey(KeyPress key, ScreenState& state, const std::vector<std::string>& kinds, int page) {
  const bool helped = std::exchange(state.help, false);  // any key closes the help
  switch (static_cast<int>(key)) {
    case 'q':
    case 'Q':
      return false;
    case '?':
    case 'h':
      state.help = !helped;
      break;
    case 'l':
      state.scale = state.scale == Scale::linear ? Scale::logarithmic : Scale::linear;
      break;
    case 'f':
      change_filter(state, kinds, 1);
      break;
    case 'F':
      change_filter(state, kinds, -1);
      break;
    case ' ':
      state.frozen = !state.frozen;
      break;
    case static_cast<int>(KeyPress::enter):
      state.large = !state.large;
      break;
    case static_cast<int>(KeyPress::escape):
      state.large = false;
      break;
    default:
      move(key, state, page);
  }
  return true;
}

}  // namespace troupe::launch
