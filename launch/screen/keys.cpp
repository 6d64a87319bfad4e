#include "launch/screen/keys.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

namespace troupe::launch {
namespace {

/// What follows ESC [ or ESC O, as xterm and its successors, the Linux console, screen and tmux
/// send it.
constexpr std::array<std::pair<std::string_view, KeyPress>, 13> kSequences{
    {{"A", KeyPress::up},
     {"B", KeyPress::down},
     {"C", KeyPress::right},
     {"D", KeyPress::left},
     {"Z", KeyPress::back_tab},
     {"H", KeyPress::home},
     {"F", KeyPress::end},
     {"1~", KeyPress::home},
     {"4~", KeyPress::end},
     {"5~", KeyPress::page_up},
     {"6~", KeyPress::page_down},
     {"7~", KeyPress::home},
     {"8~", KeyPress::end}}};
/// The longest sequence that is waited for; anything longer is no key.
constexpr std::size_t kLongest = 16;

bool is_last(char c) {
  return c >= '@' && c <= '~';
}

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

std::vector<KeyPress> KeyReader::take(std::string_view bytes) {
  const std::string all = std::exchange(rest_, {}).append(bytes);
  std::vector<KeyPress> keys;
  for (std::size_t i = 0; i < all.size();) {
    const bool begins =
        all[i] == '\x1b' && i + 1 < all.size() && (all[i + 1] == '[' || all[i + 1] == 'O');
    if (!begins) {
      const auto byte = static_cast<unsigned char>(all[i++]);
      keys.push_back(byte == '\n' ? KeyPress::enter : static_cast<KeyPress>(byte));
      continue;
    }
    std::size_t end = i + 2;
    while (end < all.size() && !is_last(all[end])) ++end;
    if (end == all.size()) {
      if (end - i < kLongest) rest_ = all.substr(i);
      break;
    }
    const std::string_view body = std::string_view(all).substr(i + 2, end - i - 1);
    const auto known =
        std::ranges::find(kSequences, body, &decltype(kSequences)::value_type::first);
    if (known != kSequences.end()) keys.push_back(known->second);
    i = end + 1;
  }
  return keys;
}

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
