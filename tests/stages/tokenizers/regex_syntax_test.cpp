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
                              "(?i:'LL|'d)", "'(?i:[sdmt]|ll)", "\xe2\x96\x81.", "\\.\\*\\(\\\\"})
    BOOST_TEST(to_pcre2(pattern).text == pattern);
}

BOOST_AUTO_TEST_CASE(white_space_and_code_points_are_spelled_anew) {
  BOOST_TEST(to_pcre2("\\s+(?!\\S)").text == "\\p{White_Space}+(?!\\P{White_Space})");
  BOOST_TEST(to_pcre2("[^\\s\\p{N}]").text == "[^\\p{White_Space}\\p{N}]");
  BOOST_TEST(to_pcre2("\\u4e00").text == "\\x{4e00}");
}

BOOST_AUTO_TEST_CASE(sets_within_sets_become_alternatives_and_look_aheads) {
  const auto text = [](const char* pattern) { return to_pcre2(pattern).text; };
  BOOST_TEST(text("\\P{Han}[\\p{Thai}x]") == "\\P{sc:Han}[\\p{sc:Thai}x]");
  BOOST_TEST(text("[a-c[^d]]") == "(?:(?:[a-c]|[^d]))");
  BOOST_TEST(text("[^a[b]]+") == "(?:(?!(?:[a]|[b]))(?s:.))+");
  BOOST_TEST(text("[\\p{L}&&[^\\p{Han}]]") == "(?:(?=[\\p{L}])[^\\p{sc:Han}])");
  BOOST_TEST(text("[a&&b&&c]") == "(?:(?=[b])(?=[a])[c])");
}

BOOST_AUTO_TEST_CASE(parts_and_named_characters_are_told) {
  using Kind = Pcre2Pattern::Item::Kind;
  const Pcre2Pattern pattern = to_pcre2("\\s*[\\r\\n]+|(?i:'s)?a(?!\\S)|(?:b){0,2}");
  BOOST_REQUIRE(pattern.alternatives.size() == 3u);
  const auto& first = pattern.alternatives[0];
  BOOST_REQUIRE(first.size() == 2u);
  BOOST_TEST((first[0].kind == Kind::character && first[0].optional && first[0].repeats));
  BOOST_TEST((first[0].source == "\\p{White_Space}" && first[1].source == "[\\r\\n]"));
  BOOST_TEST((!first[1].optional && first[1].repeats));
  const auto& second = pattern.alternatives[1];
  BOOST_REQUIRE(second.size() == 3u);
  BOOST_TEST((second[0].kind == Kind::letters && second[0].optional && !second[0].repeats));
  BOOST_TEST((second[2].kind == Kind::assertion));
  BOOST_TEST((pattern.alternatives[2][0].kind == Kind::group));
  BOOST_TEST(pattern.alternatives[2][0].optional);
  BOOST_TEST(pattern.named.empty());
  const auto named = to_pcre2("[a-\xe4\xb8\x80]|\\u30ff").named;
  BOOST_REQUIRE(named.size() == 3u);
  BOOST_TEST((named[1].first == U'a' && named[1].last == 0x4e00));
  BOOST_TEST((named[2].first == 0x30ff && named[2].last == 0x30ff));
}

BOOST_AUTO_TEST_CASE(anything_else_is_refused_with_its_place) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"a\\w", "at byte 1: \\w"},
      {"\\b", "\\b"},
      {"\\h", "\\h"},
      {"(a)\\1", "\\1"},
      {"\\", "backslash"},
      {"\\p{Arabic}", "\\p{Arabic}"},
      {"\\pL", "\\pL"},
      {"\\p{L", "\\p{L"},
      {"\\u12", "four digits"},
      {"^a", "'^'"},
      {"[[:alpha:]]", "in a set"},
      {"[a&&]", "an empty set"},
      {"[a-\\d]", "a range"},
      {"[a[b]", "a set without its end"},
      {"[]a]", "an empty set"},
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
      {"(?i:[a-z])", "set without case"},
      {"(?i:'\xc3\xa9)", "group without case"},
      {"(?i:fin)", "\"fi\" without case"},
      {"(?i:miSS)", "\"ss\" without case"},
  };
  for (const auto& [pattern, why] : cases)
    expect_error(ErrorKind::data, {pattern, why}, [&, p = pattern] { to_pcre2(p); });
  for (const char open : {'(', '['})
    expect_error(ErrorKind::data, {"nested"}, [open] { to_pcre2(std::string(1000, open)); });
}

BOOST_AUTO_TEST_SUITE_END()
