#include "launch/screen/grid.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>

#include "stages/corpus/tokenizers/text/utf8.h"

namespace troupe::launch {
namespace {

constexpr char32_t kEllipsis = U'\u2026';

struct Range {
  char32_t first, last;
};
/// Characters that every terminal shows in one column: letters of Europe, and signs for drawing.
constexpr std::array kNarrow{Range{U' ', U'~'},           Range{U'\u00a1', U'\u00ac'},
                             Range{U'\u00ae', U'\u02ff'}, Range{U'\u0370', U'\u0482'},
                             Range{U'\u048a', U'\u052f'}, Range{U'\u2010', U'\u2027'},
                             Range{U'\u2039', U'\u203a'}, Range{U'\u2190', U'\u2193'},
                             Range{U'\u2500', U'\u25ff'}, Range{U'\u2800', U'\u28ff'}};

bool is_narrow(char32_t c) {
  return std::ranges::any_of(kNarrow, [c](const Range& r) { return r.first <= c && c <= r.last; });
}

constexpr char32_t kNoDots = U'\u2800';
/// The bits of a character's dots by row, then column.
constexpr std::array<std::array<std::uint8_t, Dots::kAcross>, Dots::kDown> kBits{
    {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}}};

std::string utf8_of(std::u32string_view text) {
  std::string out;
  for (const char32_t c : text) out += stages::utf8_of(c);
  return out;
}

}  // namespace

Grid::Grid(int width, int height)
    : width_(std::max(0, width)),
      height_(std::max(0, height)),
      cells_(static_cast<std::size_t>(width_) * static_cast<std::size_t>(height_)) {}

void Grid::put(int x, int y, const Cell& cell) {
  if (x >= 0 && x < width_ && y >= 0 && y < height_) cells_[index(x, y)] = cell;
}

void Canvas::put(int x, int y, const Cell& cell) {
  if (x >= 0 && x < area_.width && y >= 0 && y < area_.height)
    grid_->put(area_.x + x, area_.y + y, cell);
}

int Canvas::text(int x, int y, std::string_view text, Style style) {
  for (const char32_t c : printable(text)) put(x++, y, {.glyph = c, .style = style});
  return x;
}

void Canvas::text_before(int end, int y, std::string_view text, Style style) {
  this->text(end - columns_of(text), y, text, style);
}

void Canvas::fill(int from, int to, int y, const Cell& cell) {
  for (int x = std::max(0, from); x < std::min(to, area_.width); ++x) put(x, y, cell);
}

void Canvas::bar(int from, int to, int y, double share, Look look) {
  const int middle = from + static_cast<int>(std::lround(share * (to - from)));
  fill(from, middle, y, {.glyph = U'\u2588', .style = {.look = look}});
  fill(middle, to, y, {.glyph = U'\u2591', .style = {.look = Look::soft}});
}

Canvas Canvas::part(const Area& area) const {
  const int left = std::clamp(area.x, 0, area_.width), top = std::clamp(area.y, 0, area_.height);
  return {*grid_,
          {.x = area_.x + left,
           .y = area_.y + top,
           .width = std::clamp(area.x + area.width - left, 0, area_.width - left),
           .height = std::clamp(area.y + area.height - top, 0, area_.height - top)}};
}

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

std::u32string printable(std::string_view text) {
  std::u32string out;
  const std::string valid = stages::valid_utf8(text);
  for (std::string_view rest = valid; !rest.empty();
       rest.remove_prefix(stages::first_char_bytes(rest))) {
    const char32_t c = stages::first_char(rest);
    out += is_narrow(c) ? c : U'?';
  }
  return out;
}

int columns_of(std::string_view text) {
  return static_cast<int>(printable(text).size());
}

std::string cut(std::string_view text, int columns) {
  std::u32string characters = printable(text);
  if (std::ssize(characters) <= columns) return utf8_of(characters);
  if (columns <= 0) return "";
  characters.resize(static_cast<std::size_t>(columns - 1));
  return utf8_of(characters + kEllipsis);
}

std::vector<std::string> wrapped(std::string_view text, int columns) {
  const std::u32string characters = printable(text);
  const auto most = static_cast<std::size_t>(std::max(1, columns));
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin < characters.size();) {
    std::size_t end = std::min(begin + most, characters.size());
    if (end < characters.size())
      if (const auto blank = characters.rfind(U' ', end);
          blank != std::u32string::npos && blank > begin)
        end = blank;
    lines.push_back(utf8_of(std::u32string_view(characters).substr(begin, end - begin)));
    begin = end < characters.size() && characters[end] == U' ' ? end + 1 : end;
  }
  return lines;
}

}  // namespace troupe::launch
