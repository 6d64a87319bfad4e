#pragma once

#include <functional>

namespace troupe::launch {

enum class Colours { none, eight, many };

/// What a terminal can show.
struct TerminalKind {
  bool moves = false;  ///< whether the cursor can be moved; if not, it takes lines alone
  bool utf8 = false;
  Colours colours = Colours::none;
};

/// What the environment says of the terminal, as other programs understand it: TERM, COLORTERM, the
/// locale (LC_ALL, LC_CTYPE, LANG), and NO_COLOR. `variable` gives the value of a variable; null if
/// it is not set.
TerminalKind terminal_kind(const std::function<const char*(const char*)>& variable);

}  // namespace troupe::launch
