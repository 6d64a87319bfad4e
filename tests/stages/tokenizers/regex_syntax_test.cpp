#include "stages/corpus/tokenizers/text/regex_syntax.h"

#include <boost/test/unit_test.hpp>

#include "tests/support/expect_error.h"

BOOST_AUTO_TEST_SUITE(regex_syntax_test)

using namespace troupe;
using namespace troupe::stages;
using test::expect_error;

BOOST_AUTO_TEST_CASE(what_both_engines_do_alike_stays) {
  for (const char* pattern : {"'s|'t", " ?\\p{L}+", "\\p{N}{1,3}", "[^\\r\\n\\p{L}]?+\\p{Lu}*?",
                              "a{2}b{3,}", "(?:a|(b))+c$", "x(?=y)(?!\\d)", "[!-/:-@\\[\\]\\-]",
                              "(?i:'LL|'d)", "\xe2\x96\x81.", "\\.\\*\\(\\\\"})
    BOOST_TEST(to_pcre2(pattern) == pattern);
}

BOOST_AUTO_TEST_CASE(white_space_and_code_points_are_spelled_anew) {
  BOOST_TEST(to_pcre2("\\s+(?!\\S)") == "\\p{White_Space}+(?!\\P{White_Space})");
  BOOST_TEST(to_pcre2("[^\\s\\p{N}]") == "[^\\p{White_Space}\\p{N}]");
  BOOST_TEST(to_pcre2("\\u4e00") == "\\x{4e00}");
}

BOOST_AUTO_TEST_CASE(anything_else_is_refused_with_its_place) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"a\\w", "at byte 1: \\w"},
      {"\\b", "\\b"},
      {"\\h", "\\h"},
      {"(a)\\1", "\\1"},
      {"\\", "backslash"},
      {"\\p{Greek}", "\\p{Greek}"},
      {"\\pL", "\\pL"},
      {"\\p{L", "\\p{L"},
      {"\\u12", "four digits"},
      {"^a", "'^'"},
      {"[[:alpha:]]", "in a set"},
      {"[a&&b]", "in a set"},
      {"[]a]", "in a set"},
      {"[a", "a set without its end"},
      {"(?<=a)b", "this kind of group"},
      {"(?<name>a)", "this kind of group"},
      {"(?>a)", "this kind of group"},
      {"(?i)a", "this kind of group"},
      {"(*COMMIT)a", "this kind of group"},
      {"(a", "without its end"},
      {"a)", "without a ("},
      {"a{1,3}+", "two quantifiers"},
      {"a{2}?", "two quantifiers"},
      {"a+*", "two quantifiers"},
      {"a{,3}", "without a number"},
      {"a{3", "without its end"},
      {"*a", "'*'"},
      {"(?=a)+b", "repeated look-ahead"},
      {"(?i:[a-z])", "group without case"},
      {"(?i:'\xc3\xa9)", "group without case"},
      {"(?i:fin)", "\"fi\" without case"},
      {"(?i:miSS)", "\"ss\" without case"},
  };
  for (const auto& [pattern, why] : cases)
    expect_error(ErrorKind::data, {pattern, why}, [&, p = pattern] { to_pcre2(p); });
  expect_error(ErrorKind::data, {"nested"}, [] { to_pcre2(std::string(1000, '(')); });
}

BOOST_AUTO_TEST_SUITE_END()
