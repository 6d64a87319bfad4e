#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::launch {

/// What a cell stands for; a palette (frame.h) says how that looks on a terminal. No look is the
/// only sign of anything, because a terminal may have no colours.
enum class Look : std::uint8_t {
  plain,
  soft,  ///< of less weight than the text around it
  live,
  good,
  bad,
  waiting,
  raw,
  smooth,
  evaluation,
  // Grounds of actions.
  forward,
  backward,
  input_gradient,
  weight_gradient,
  pair,  ///< two actions at the same time
};

struct Style {
  Look look = Look::plain;
  bool bold = false;
  bool operator==(const Style&) const = default;
};

/// A place for one character, which is one column wide.
struct Cell {
  char32_t glyph = U' ';
  Style style = {};
  bool operator==(const Cell&) const = default;
};

/// The characters of a whole screen.
class Grid {
 public:
  /// Blank. A size below 0 counts as 0.
  Grid(int width, int height);

  int width() const { return width_; }
  int height() const { return height_; }
  /// The place must be in the grid.
  const Cell& at(int x, int y) const { return cells_[index(x, y)]; }
  /// Does nothing outside of the grid.
  void put(int x, int y, const Cell& cell);

 private:
  std::size_t index(int x, int y) const {
    return static_cast<std::size_t>(y) * static_cast<std::size_t>(width_) +
           static_cast<std::size_t>(x);
  }

  const int width_, height_;
  std::vector<Cell> cells_;
};

struct Area {
  int x = 0;
  int y = 0;
  int width = 0;
  int height = 0;
  bool operator==(const Area&) const = default;
};

/// A part of a grid to draw on, with coordinates of its own. What lies outside of it is cut. The
/// grid must outlive it.
class Canvas {
 public:
  Canvas(Grid& grid, const Area& area) : grid_(&grid), area_(area) {}

  int width() const { return area_.width; }
  int height() const { return area_.height; }
  void put(int x, int y, const Cell& cell);
  /// Writes printable(text) from `x` on and returns the column behind it.
  int text(int x, int y, std::string_view text, Style style = {});
  /// Writes a text that ends before the column `end`.
  void text_before(int end, int y, std::string_view text, Style style = {});
  void fill(int from, int to, int y, const Cell& cell);
  /// A bar between two columns, of which a share is full.
  void bar(int from, int to, int y, double share, Look look);
  /// A part of this one. It may reach beyond, but nothing is drawn there.
  Canvas part(const Area& area) const;

 private:
  Grid* grid_;
  Area area_;
};

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

/// The characters of a text, each one column wide: what controls a terminal, is wider or joins
/// other characters, or is no UTF-8, becomes '?'.
std::u32string printable(std::string_view text);
/// The number of columns that a text takes.
int columns_of(std::string_view text);
/// A text of at most so many columns; the end of a longer one is "...", as one character.
std::string cut(std::string_view text, int columns);
/// Lines of at most `columns` columns, divided at blanks where that is possible.
std::vector<std::string> wrapped(std::string_view text, int columns);

}  // namespace troupe::launch
