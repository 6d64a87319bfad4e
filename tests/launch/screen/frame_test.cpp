#include "launch/screen/frame.h"

#include <boost/test/unit_test.hpp>
#include <optional>
#include <random>
#include <set>

#include "tests/launch/screen_rows.h"
#include "tests/support/screen_emulator.h"
#include "tests/support/seed.h"

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(frame_test)

namespace {

using launch::Colours;
using launch::FrameWriter;
using launch::Grid;
using launch::Look;

constexpr launch::TerminalKind kRich{.moves = true, .utf8 = true, .colours = Colours::many};

void compare(const ScreenEmulator& screen, const Grid& grid) {
  for (int y = 0; y < grid.height(); ++y) BOOST_TEST(screen.row(y) == row_of(grid, y));
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_terminal_shows_every_grid_after_any_other) {
  std::mt19937_64 random(fresh_seed());
  FrameWriter writer(kRich);
  ScreenEmulator screen(1, 1);
  screen.feed("\x1b[?1049h");
  std::optional<Grid> grid;
  for (int round = 0; round < 200; ++round) {
    if (round % 20 == 0) {
      const int width = 1 + static_cast<int>(random() % 60),
                height = 1 + static_cast<int>(random() % 20);
      screen.resize(width, height);
      writer.forget();
      grid.emplace(width, height);
    }
    for (int i = 0; i < 10; ++i)
      grid->put(static_cast<int>(random() % static_cast<unsigned>(grid->width())),
                static_cast<int>(random() % static_cast<unsigned>(grid->height())),
                {.glyph = U"aZ \u28ff\u2500"[random() % 5],
                 .style = {.look = static_cast<Look>(random() % 14)}});
    screen.feed(writer.frame(*grid));
    compare(screen, *grid);
  }
}

BOOST_AUTO_TEST_CASE(only_what_has_changed_is_sent) {
  FrameWriter writer(kRich);
  ScreenEmulator screen(80, 24);
  screen.feed("\x1b[?1049h");
  Grid grid(80, 24);
  screen.feed(writer.frame(grid));
  BOOST_TEST(screen.num_written() == 80 * 24);
  BOOST_TEST(writer.frame(grid) == "");
  grid.put(3, 5, {.glyph = U'x'});
  grid.put(4, 5, {.glyph = U'y'});
  const std::string change = writer.frame(grid);
  BOOST_TEST(change == "\x1b[6;4H\x1b[0mxy\x1b[0m");
  screen.feed(change);
  BOOST_TEST(screen.row(5) == "   xy");
  writer.forget();
  screen.feed(writer.frame(grid));
  BOOST_TEST(screen.num_written() == 2 + 80 * 24);
}

BOOST_AUTO_TEST_CASE(looks_are_told_apart_as_far_as_the_terminal_goes) {
  std::set<std::string> rich;
  for (int look = 0; look <= static_cast<int>(Look::pair); ++look) {
    const launch::Style style{.look = static_cast<Look>(look)};
    const std::string plain = attributes_of(style, Colours::none);
    for (const char* colour : {";3", ";4"}) BOOST_TEST(plain.find(colour) == std::string::npos);
    const std::string eight = attributes_of(style, Colours::eight);
    BOOST_TEST(eight.find(";5;") == std::string::npos);
    rich.insert(attributes_of(style, Colours::many));
  }
  BOOST_TEST(rich.size() >= 12u);
}

BOOST_AUTO_TEST_CASE(without_utf8_every_character_is_ascii) {
  FrameWriter writer({.moves = true, .utf8 = false, .colours = Colours::none});
  Grid grid(6, 1);
  int x = 0;
  for (const char32_t glyph : {U'\u2501', U'\u2588', U'\u2801', U'\u2840', U'\u28ff', U'\u00e4'})
    grid.put(x++, 0, {.glyph = glyph});
  BOOST_TEST(writer.frame(grid) == "\x1b[1;1H\x1b[0m=#'.:?\x1b[0m");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
