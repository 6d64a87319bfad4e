#pragma once

#include <functional>
#include <optional>
#include <string>

#include "launch/screen/grid.h"

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

/// Turns grids into what a terminal must be sent to show them one after the other: only what has
/// changed. It uses few sequences of ECMA-48, which all terminals of today understand: cursor
/// position (CUP) and attributes (SGR).
class FrameWriter {
 public:
  explicit FrameWriter(const TerminalKind& kind) : kind_(kind) {}

  /// The bytes that make the terminal show the grid; empty if it does.
  std::string frame(const Grid& grid);
  /// Nothing is known of what the terminal shows: the next frame draws every character.
  void forget() { shown_.reset(); }

 private:
  std::string glyph_of(char32_t glyph) const;

  const TerminalKind kind_;
  std::optional<Grid> shown_;
};

/// The sequence that sets a style's attributes and no others.
std::string attributes_of(Style style, Colours colours);
/// What stands for a character where only ASCII can be shown.
char ascii_of(char32_t glyph);

}  // namespace troupe::launch
