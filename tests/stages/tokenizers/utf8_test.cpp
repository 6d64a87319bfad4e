#include "stages/corpus/tokenizers/text/utf8.h"

#include <boost/test/unit_test.hpp>

BOOST_AUTO_TEST_SUITE(utf8_test)

using namespace troupe::stages;

namespace {

const std::string kReplaced = "\xef\xbf\xbd";

}  // namespace

BOOST_AUTO_TEST_CASE(well_formed_text_is_left_alone) {
  const std::string text =
      "a\xc3\xa4\xe2\x82\xac\xf0\x9f\x8e\xad\xed\x9f\xbf\xee\x80\x80\xf4\x8f\xbf\xbf";
  BOOST_TEST(valid_utf8(text) == text);
  BOOST_TEST(valid_utf8(std::string("a\0b", 3)) == std::string("a\0b", 3));
}

BOOST_AUTO_TEST_CASE(every_maximal_invalid_part_becomes_one_replacement) {
  BOOST_TEST(valid_utf8("a\x80z") == "a" + kReplaced + "z");                    // stray tail
  BOOST_TEST(valid_utf8("\xc0\xaf") == kReplaced + kReplaced);                  // overlong
  BOOST_TEST(valid_utf8("\xe2\x82z") == kReplaced + "z");                       // cut short
  BOOST_TEST(valid_utf8("\xe2\x82") == kReplaced);                              // at the end
  BOOST_TEST(valid_utf8("\xed\xa0\x80") == kReplaced + kReplaced + kReplaced);  // surrogate
  BOOST_TEST(valid_utf8("\xf4\x90\x80\x80") == kReplaced + kReplaced + kReplaced + kReplaced);
  // The Unicode Standard's own example, table 3-8.
  BOOST_TEST(valid_utf8("\x61\xf1\x80\x80\xe1\x80\xc2\x62\x80\x63\x80\xbf\x64") ==
             "a" + kReplaced + kReplaced + kReplaced + "b" + kReplaced + "c" + kReplaced +
                 kReplaced + "d");
}

BOOST_AUTO_TEST_CASE(an_incomplete_tail_is_what_a_next_byte_could_finish) {
  BOOST_TEST(incomplete_tail("abc") == 0u);
  BOOST_TEST(incomplete_tail("ab\xc3") == 1u);
  BOOST_TEST(incomplete_tail("ab\xe2\x82") == 2u);
  BOOST_TEST(incomplete_tail("ab\xf0\x9f\x8e") == 3u);
  BOOST_TEST(incomplete_tail("ab\xf0\x9f\x8e\xad") == 0u);
  BOOST_TEST(incomplete_tail("\x80\x80\x80") == 0u);
  BOOST_TEST(incomplete_tail("\xe0\x80") == 0u);  // no character begins so
}

BOOST_AUTO_TEST_CASE(characters_are_found_at_both_ends) {
  const std::string text = "\xc3\xa4-\xf0\x9f\x8e\xad";
  BOOST_TEST((first_char(text) == 0xe4));
  BOOST_TEST(first_char_bytes(text) == 2u);
  BOOST_TEST((last_char(text) == 0x1f3ad));
  BOOST_TEST(last_char_bytes(text) == 4u);
  BOOST_TEST(utf8_of(0x1f3ad) == "\xf0\x9f\x8e\xad");
}

BOOST_AUTO_TEST_CASE(white_space_is_that_of_unicode) {
  int count = 0;
  for (char32_t c = 0; c < 0x110000; ++c) count += is_white_space(c) ? 1 : 0;
  BOOST_TEST(count == 25);
  BOOST_TEST(is_white_space(U'\u3000'));
  BOOST_TEST(!is_white_space(U'\u180e'));
  BOOST_TEST(!is_white_space(0x1c));
}

BOOST_AUTO_TEST_SUITE_END()
