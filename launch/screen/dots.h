#pragma once

#include <cstdint>
#include <vector>

namespace troupe::launch {

/// A picture of dots, eight to a character: Unicode's braille patterns are two dots wide and four
/// dots high.
class Dots {
 public:
  static constexpr int kAcross = 2, kDown = 4;

  /// In characters; both at least 0.
  Dots(int columns, int rows);

  int width() const { return columns_ * kAcross; }
  int height() const { return rows_ * kDown; }
  /// Does nothing outside of the picture.
  void set(int x, int y);
  /// Sets the dots of a straight line, its ends included.
  void line(int from_x, int from_y, int to_x, int to_y);
  /// The character of a place; 0 if it has no dots.
  char32_t glyph(int column, int row) const;

 private:
  std::size_t index(int column, int row) const {
    return static_cast<std::size_t>(row) * static_cast<std::size_t>(columns_) +
           static_cast<std::size_t>(column);
  }

  const int columns_, rows_;
  std::vector<std::uint8_t> patterns_;  // a bit for each dot, as Unicode numbers them
};

}  // namespace troupe::launch
