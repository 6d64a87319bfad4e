#include "launch/screen/grid.h"

#include <algorithm>
#include <array>
#include <cmath>

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

std::string Grid::row(int y) const {
  std::u32string text;
  for (int x = 0; x < width_; ++x) text += at(x, y).glyph;
  text.erase(text.find_last_not_of(U' ') + 1);
  return utf8_of(text);
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
