#include "launch/screen/keys.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

namespace troupe::launch {
namespace {

/// What follows ESC [ or ESC O, as xterm and its successors, the Linux console, screen and tmux
/// send it.
constexpr std::array<std::pair<std::string_view, Key>, 13> kSequences{{{"A", Key::up},
                                                                       {"B", Key::down},
                                                                       {"C", Key::right},
                                                                       {"D", Key::left},
                                                                       {"Z", Key::back_tab},
                                                                       {"H", Key::home},
                                                                       {"F", Key::end},
                                                                       {"1~", Key::home},
                                                                       {"4~", Key::end},
                                                                       {"5~", Key::page_up},
                                                                       {"6~", Key::page_down},
                                                                       {"7~", Key::home},
                                                                       {"8~", Key::end}}};
/// The longest sequence that is waited for; anything longer is no key.
constexpr std::size_t kLongest = 16;

bool is_last(char c) {
  return c >= '@' && c <= '~';
}

}  // namespace

std::vector<Key> KeyReader::take(std::string_view bytes) {
  const std::string all = std::exchange(rest_, {}).append(bytes);
  std::vector<Key> keys;
  for (std::size_t i = 0; i < all.size();) {
    const bool begins =
        all[i] == '\x1b' && i + 1 < all.size() && (all[i + 1] == '[' || all[i + 1] == 'O');
    if (!begins) {
      const auto byte = static_cast<unsigned char>(all[i++]);
      keys.push_back(byte == '\n' ? Key::enter : static_cast<Key>(byte));
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
