#pragma once

#include <optional>
#include <string>

#include "launch/screen/grid.h"
#include "launch/screen/terminal_kind.h"

namespace troupe::launch {

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
