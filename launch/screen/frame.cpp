#include "launch/screen/frame.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "stages/corpus/tokenizers/text/utf8.h"

namespace troupe::launch {
namespace {

/// The attributes of a look, as parameters of SGR. Colours are those of Okabe and Ito, which
/// colour-blind readers tell apart, as near as the 256 colours come; the eight come nearest to
/// these.
struct Codes {
  Look look;
  const char* none;
  const char* eight;
  const char* many;
};
constexpr std::array kAttributes{
    Codes{Look::plain, "", "", ""},
    Codes{Look::soft, "2", "2", "2"},
    Codes{Look::live, "", "36", "38;5;74"},
    Codes{Look::good, "", "32", "38;5;36"},
    Codes{Look::bad, "1", "31", "38;5;166"},
    Codes{Look::waiting, "", "33", "38;5;172"},
    Codes{Look::raw, "2", "2;36", "38;5;67"},
    Codes{Look::smooth, "", "36", "38;5;74"},
    Codes{Look::evaluation, "", "33", "38;5;172"},
    Codes{Look::forward, "7", "44;37", "48;5;25;38;5;255"},
    Codes{Look::backward, "", "43;30", "48;5;172;38;5;16"},
    Codes{Look::input_gradient, "", "46;30", "48;5;74;38;5;16"},
    Codes{Look::weight_gradient, "", "42;30", "48;5;29;38;5;255"},
    Codes{Look::pair, "7", "45;37", "48;5;132;38;5;255"},
};

struct Stand {
  char32_t glyph;
  char stand_in;
};
constexpr std::array kStandIns{
    Stand{U'\u2501', '='}, Stand{U'\u2500', '-'}, Stand{U'\u2502', '|'}, Stand{U'\u2524', '+'},
    Stand{U'\u256d', '+'}, Stand{U'\u256e', '+'}, Stand{U'\u2570', '+'}, Stand{U'\u256f', '+'},
    Stand{U'\u2588', '#'}, Stand{U'\u2591', '.'}, Stand{U'\u25cf', '*'}, Stand{U'\u25cc', '~'},
    Stand{U'\u25cb', 'o'}, Stand{U'\u00d7', 'X'}, Stand{U'\u25b2', '^'}, Stand{U'\u25a0', '*'},
    Stand{U'\u25b6', '>'}, Stand{U'\u25c6', 'o'}, Stand{U'\u2190', '<'}, Stand{U'\u2192', '>'},
    Stand{U'\u2191', '^'}, Stand{U'\u2193', 'v'}, Stand{U'\u203a', '>'}, Stand{U'\u2039', '<'},
    Stand{U'\u00b7', '.'}, Stand{U'\u2026', '~'}};

/// Dots by where they lie: in the upper half of the character, the lower one, or both.
char ascii_of_dots(char32_t glyph) {
  constexpr char32_t kUpper = 0x01 | 0x02 | 0x08 | 0x10;
  const char32_t dots = glyph - U'\u2800';
  if ((dots & kUpper) == 0) return '.';
  return (dots & ~kUpper) == 0 ? '\'' : ':';
}

bool names_utf8(std::string locale) {
  std::ranges::transform(locale, locale.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return locale.find("utf-8") != std::string::npos || locale.find("utf8") != std::string::npos;
}

}  // namespace

TerminalKind terminal_kind(const std::function<const char*(const char*)>& variable) {
  const auto value = [&](const char* name) -> std::string {
    const char* found = variable(name);
    return found ? found : "";
  };
  const std::string term = value("TERM");
  TerminalKind kind{.moves = !term.empty() && term != "dumb"};
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"})
    if (const std::string locale = value(name); !locale.empty()) {
      kind.utf8 = names_utf8(locale) && term != "linux";  // the console's fonts lack most signs
      break;
    }
  if (!value("NO_COLOR").empty() || term.starts_with("vt")) return kind;
  const bool many = term.find("256color") != std::string::npos || !value("COLORTERM").empty();
  kind.colours = many ? Colours::many : Colours::eight;
  return kind;
}

std::string attributes_of(Style style, Colours colours) {
  const Codes& of_look = *std::ranges::find(kAttributes, style.look, &Codes::look);
  const std::string look = colours == Colours::none    ? of_look.none
                           : colours == Colours::eight ? of_look.eight
                                                       : of_look.many;
  return "\x1b[0" + std::string(style.bold ? ";1" : "") + (look.empty() ? "" : ";" + look) + "m";
}

char ascii_of(char32_t glyph) {
  if (glyph < 0x7f) return static_cast<char>(glyph);
  if (glyph >= U'\u2800' && glyph <= U'\u28ff') return ascii_of_dots(glyph);
  const auto found = std::ranges::find(kStandIns, glyph, &Stand::glyph);
  return found == kStandIns.end() ? '?' : found->stand_in;
}

std::string FrameWriter::glyph_of(char32_t glyph) const {
  return kind_.utf8 ? stages::utf8_of(glyph) : std::string(1, ascii_of(glyph));
}

std::string FrameWriter::frame(const Grid& grid) {
  const bool whole =
      !shown_ || shown_->width() != grid.width() || shown_->height() != grid.height();
  std::string out;
  std::optional<Style> style;
  for (int y = 0; y < grid.height(); ++y)
    for (int x = 0, at = -1; x < grid.width(); ++x) {
      const Cell& cell = grid.at(x, y);
      if (!whole && cell == shown_->at(x, y)) continue;
      if (at != x) out += fmt::format("\x1b[{};{}H", y + 1, x + 1);
      if (style != cell.style) out += attributes_of(cell.style, kind_.colours);
      style = cell.style;
      out += glyph_of(cell.glyph);
      at = x + 1;
    }
  shown_.emplace(grid);
  return out.empty() ? out : out + "\x1b[0m";
}

}  // namespace troupe::launch
