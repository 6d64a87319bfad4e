#include "stages/corpus/tokenizers/text/byte_alphabet.h"

#include <boost/test/unit_test.hpp>

#include "stages/corpus/tokenizers/text/utf8.h"

BOOST_AUTO_TEST_SUITE(byte_alphabet_test)

using namespace troupe::stages;

BOOST_AUTO_TEST_CASE(every_byte_has_a_letter_that_stands_for_it) {
  std::string letters, bytes;
  for (int byte = 0; byte < 256; ++byte) {
    letters += letter_of_byte(static_cast<unsigned char>(byte));
    bytes += static_cast<char>(byte);
  }
  BOOST_TEST((bytes_of_letters(letters) == bytes));
}

BOOST_AUTO_TEST_CASE(the_letters_are_those_of_gpt2) {
  BOOST_TEST(letter_of_byte('a') == "a");
  BOOST_TEST(letter_of_byte(0xe9) == utf8_of(0xe9));
  BOOST_TEST(letter_of_byte(0) == utf8_of(0x100));
  BOOST_TEST(letter_of_byte('\n') == utf8_of(0x10a));
  BOOST_TEST(letter_of_byte(' ') == utf8_of(0x120));
  BOOST_TEST(letter_of_byte(0xad) == utf8_of(0x143));  // the last without one of its own
}

BOOST_AUTO_TEST_CASE(other_characters_stand_for_no_byte) {
  for (const char32_t other : {U' ', U'\n', U'\u00ad', U'\u0144', U'\u20ac'})
    BOOST_TEST(!bytes_of_letters("a" + utf8_of(other)));
  BOOST_TEST((bytes_of_letters("") == ""));
}

BOOST_AUTO_TEST_SUITE_END()
