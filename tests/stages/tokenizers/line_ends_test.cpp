#include "stages/corpus/tokenizers/text/line_ends.h"

#include <boost/test/unit_test.hpp>
#include <string>

#include "stages/corpus/tokenizers/text/known_patterns.h"
#include "stages/corpus/tokenizers/text/split.h"

BOOST_AUTO_TEST_SUITE(line_ends_test)

using namespace troupe::stages;
using Kind = LineEnds::Kind;

namespace {

LineEnds ends_of(const std::string& pattern) {
  return Pattern::of_regex(pattern).line_ends;
}

Kind kind_of(const std::string& pattern) {
  return ends_of(pattern).kind;
}

/// Whether a newline may be cut before a character.
bool may_be_before(const std::string& pattern, const std::string& character) {
  const LineEnds ends = ends_of(pattern);
  return !ends.but_before || ends.but_before->matches(character).empty();
}

}  // namespace

BOOST_AUTO_TEST_CASE(known_patterns_end_words_at_lone_newlines) {
  for (const char* pattern : {kGpt2Words, kCl100kWords, kQwenWords, kO200kWords, kKimiWords}) {
    BOOST_TEST((kind_of(pattern) == Kind::ended), pattern);
    for (const char* character : {"a", "1", "!", "\xe4\xb8\xad"})
      BOOST_TEST(may_be_before(pattern, character), pattern << " before " << character);
  }
  BOOST_TEST(may_be_before(kQwenWords, "/"));
  BOOST_TEST(!may_be_before(kO200kWords, "/"));
}

BOOST_AUTO_TEST_CASE(a_pattern_without_newlines_passes_them) {
  BOOST_TEST((kind_of("\\p{N}{1,3}") == Kind::passed));
  BOOST_TEST((kind_of("[a-z]+|.x") == Kind::passed));
  BOOST_TEST(!ends_of("\\p{N}").takes_newlines);
  BOOST_TEST((kind_of("[\\r\\n]") == Kind::ended));
  BOOST_TEST(ends_of("[\\r\\n]").takes_newlines);
}

BOOST_AUTO_TEST_CASE(what_may_follow_a_newline_in_a_match_is_told) {
  BOOST_TEST((kind_of("\\s|\\n?[a-c]+") == Kind::ended));
  BOOST_TEST(!may_be_before("\\s|\\n?[a-c]+", "b"));
  BOOST_TEST(may_be_before("\\s|\\n?[a-c]+", "d"));
  BOOST_TEST(!may_be_before("[^a]+|a", "b"));
  BOOST_TEST(may_be_before("[^a]+|a", "a"));
  BOOST_TEST(!may_be_before("[\\n]x?y*z|\\s", "z"));
}

BOOST_AUTO_TEST_CASE(what_depends_on_the_text_behind_a_newline_is_not_known) {
  for (const char* pattern :
       {"a(?!b)", "[^a]+(?=b)|\\s", "(?:\\n)|\\s", "\\s+(?!\\S)", "\\n?(?i:'s)|\\s", "a\\n+$|\\s"})
    BOOST_TEST((kind_of(pattern) == Kind::unknown), pattern);
  BOOST_TEST((kind_of("\\s*+[\\r\\n]") != Kind::ended));  // takes what it needs itself
}

BOOST_AUTO_TEST_SUITE_END()
