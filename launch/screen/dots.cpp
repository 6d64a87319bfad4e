#include "launch/screen/dots.h"

#include <algorithm>
#include <array>
#include <cstdlib>

namespace troupe::launch {
namespace {

constexpr char32_t kNoDots = U'\u2800';
/// The bits of a character's dots by row, then column.
constexpr std::array<std::array<std::uint8_t, Dots::kAcross>, Dots::kDown> kBits{
    {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}}};

}  // namespace

Dots::Dots(int columns, int rows)
    : columns_(columns),
      rows_(rows),
      patterns_(static_cast<std::size_t>(columns) * static_cast<std::size_t>(rows)) {}

void Dots::set(int x, int y) {
  if (x < 0 || x >= width() || y < 0 || y >= height()) return;
  patterns_[index(x / kAcross, y / kDown)] |=
      kBits[static_cast<std::size_t>(y % kDown)][static_cast<std::size_t>(x % kAcross)];
}

/// Bresenham's algorithm.
void Dots::line(int from_x, int from_y, int to_x, int to_y) {
  const int dx = std::abs(to_x - from_x), dy = -std::abs(to_y - from_y);
  const int step_x = from_x < to_x ? 1 : -1, step_y = from_y < to_y ? 1 : -1;
  int error = dx + dy;
  for (int x = from_x, y = from_y;;) {
    set(x, y);
    if (x == to_x && y == to_y) return;
    const int twice = 2 * error;
    if (twice >= dy) {
      error += dy;
      x += step_x;
    }
    if (twice <= dx) {
      error += dx;
      y += step_y;
    }
  }
}

char32_t Dots::glyph(int column, int row) const {
  const std::uint8_t pattern = patterns_[index(column, row)];
  return pattern == 0 ? 0 : kNoDots + pattern;
}

}  // namespace troupe::launch
