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

}  // namespace troupe::launch
