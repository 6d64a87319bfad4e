#include "stages/corpus/tokenizers/text/regex.h"

#include <boost/test/unit_test.hpp>
#include <string>
#include <utility>

#include "tests/support/expect_error.h"

BOOST_AUTO_TEST_SUITE(regex_test)

using namespace troupe;
using namespace troupe::stages;
using test::expect_error;

namespace {

using Texts = std::vector<std::string>;

Texts found(const Regex& regex, const std::string& text) {
  Texts texts;
  for (const auto& [begin, end] : regex.matches(text))
    texts.push_back(text.substr(begin, end - begin));
  return texts;
}

}  // namespace

BOOST_AUTO_TEST_CASE(matches_follow_each_other_and_the_first_alternative_counts) {
  BOOST_TEST(found(Regex("a|ab|b"), "ab-b") == (Texts{"a", "b", "b"}));
  BOOST_TEST(found(Regex("\\p{L}+(?!x)"), "abcx de") == (Texts{"abcx", "de"}));
  BOOST_TEST(found(Regex("x++x"), "xxx").empty());
  BOOST_TEST(found(Regex("a"), "").empty());
}

BOOST_AUTO_TEST_CASE(the_end_of_a_line_is_before_every_newline) {
  BOOST_TEST(found(Regex("b$"), "ab\nb\nbc\rb") == (Texts{"b", "b", "b"}));
  BOOST_TEST(found(Regex(".+"), "a\rb\nc") == (Texts{"a\rb", "c"}));
}

BOOST_AUTO_TEST_CASE(white_space_and_letters_without_case_are_those_of_the_library) {
  // The Mongolian vowel separator U+180E was white space once; the vocabulary of letters has grown.
  BOOST_TEST(found(Regex("\\s"), "\xe1\xa0\x8e\xc2\x85\xe3\x80\x80\x1c") ==
             (Texts{"\xc2\x85", "\xe3\x80\x80"}));
  BOOST_TEST(found(Regex("\\p{L}"), "\xea\x9f\x80-\xf0\x9f\x98\x80") == Texts{"\xea\x9f\x80"});
  // Without case, an s is the long s, and a k the Kelvin sign.
  BOOST_TEST(found(Regex("(?i:'s|k)"), "'\xc5\xbf'S\xe2\x84\xaa") ==
             (Texts{"'\xc5\xbf", "'S", "\xe2\x84\xaa"}));
}

BOOST_AUTO_TEST_CASE(a_pattern_that_tells_newer_characters_apart_is_refused) {
  expect_error(ErrorKind::data, {"exactly", "U+2FFC", "newer"}, [] { Regex("\\u2ffd"); });
  Regex("[\\u2e80-\xf0\xbf\xbf\xbf]");  // has all of them
  BOOST_TEST(found(Regex("[\\u4e00-\\u9fa5]+"), "\xe4\xb8\x80\xf0\xb1\x8d\x90") ==
             Texts{"\xe4\xb8\x80"});
}

BOOST_AUTO_TEST_CASE(what_may_go_on_is_not_known) {
  const auto known = [](const char* pattern, const std::string& text) {
    const Regex::Known known = Regex(pattern).known_matches(text);
    return std::pair(known.matches.size(), known.end);
  };
  BOOST_TEST((known("[a-z]+", "ab, cd") == std::pair<std::size_t, std::size_t>(1, 4)));
  BOOST_TEST((known("[a-z]+", "ab, ") == std::pair<std::size_t, std::size_t>(1, 4)));
  BOOST_TEST((known("\\s+(?!\\S)|\\s+", "a  ") == std::pair<std::size_t, std::size_t>(0, 1)));
  BOOST_TEST((known("\\p{N}{1,3}", "12345") == std::pair<std::size_t, std::size_t>(1, 3)));
  BOOST_TEST((known("abc", "xxab") == std::pair<std::size_t, std::size_t>(0, 2)));
  BOOST_TEST((known("\\p{N}", "a1") == std::pair<std::size_t, std::size_t>(1, 2)));
}

BOOST_AUTO_TEST_CASE(a_literal_is_no_pattern) {
  BOOST_TEST(found(Regex::literal(".*"), "a.*b..*") == (Texts{".*", ".*"}));
}

BOOST_AUTO_TEST_CASE(a_long_text_needs_no_long_stack) {
  const std::size_t length = 3'000'000;
  const Regex words("\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+|(?:a|b)+");
  const auto spaces = words.matches(std::string(length, ' ') + "a");
  BOOST_REQUIRE(spaces.size() == 3u);
  BOOST_TEST(spaces[0].end == length - 1);
  const auto letters = words.matches(std::string(length, 'a'));
  BOOST_REQUIRE(letters.size() == 1u);
  BOOST_TEST(letters[0].end == length);
}

BOOST_AUTO_TEST_CASE(a_pattern_that_cannot_be_used_is_refused) {
  expect_error(ErrorKind::data, {"[b-a]", "wrong"}, [] { Regex("[b-a]"); });
  expect_error(ErrorKind::data, {"a*", "empty text"}, [] { Regex("a*"); });
  expect_error(ErrorKind::data, {"\\w", "exactly"}, [] { Regex("\\w"); });
}

BOOST_AUTO_TEST_SUITE_END()
