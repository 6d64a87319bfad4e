#include <boost/test/unit_test.hpp>

#include "launch/screen/grid.h"

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(dots_test)

using launch::Dots;

BOOST_AUTO_TEST_CASE(every_dot_has_the_bit_that_unicode_gives_it) {
  const char32_t expected[4][2] = {{U'\u2801', U'\u2808'},
                                   {U'\u2802', U'\u2810'},
                                   {U'\u2804', U'\u2820'},
                                   {U'\u2840', U'\u2880'}};
  for (int y = 0; y < 4; ++y)
    for (int x = 0; x < 2; ++x) {
      Dots dots(2, 2);
      dots.set(2 + x, 4 + y);
      BOOST_TEST(static_cast<int>(dots.glyph(1, 1)) == static_cast<int>(expected[y][x]));
      for (const auto& [column, row] : {std::pair(0, 0), {0, 1}, {1, 0}})
        BOOST_TEST(static_cast<int>(dots.glyph(column, row)) == 0);
    }
}

BOOST_AUTO_TEST_CASE(a_line_is_what_its_dots_are) {
  Dots falling(2, 1);
  falling.line(0, 0, 3, 3);
  BOOST_TEST(static_cast<int>(falling.glyph(0, 0)) == 0x2811);  // dots (0, 0) and (1, 1)
  BOOST_TEST(static_cast<int>(falling.glyph(1, 0)) == 0x2884);  // (0, 2) and (1, 3)
  Dots level(2, 1);
  level.line(3, 3, 0, 3);
  for (const int column : {0, 1}) BOOST_TEST(static_cast<int>(level.glyph(column, 0)) == 0x28c0);
  Dots upright(1, 1);
  upright.line(1, 0, 1, 3);
  BOOST_TEST(static_cast<int>(upright.glyph(0, 0)) == 0x28b8);
}

BOOST_AUTO_TEST_CASE(what_lies_outside_is_left_out) {
  Dots dots(1, 1);
  dots.line(-5, -5, 7, 7);
  BOOST_TEST(static_cast<int>(dots.glyph(0, 0)) == 0x2811);
  Dots nothing(0, 0);
  nothing.line(0, 0, 3, 3);
  BOOST_TEST(nothing.width() == 0);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
