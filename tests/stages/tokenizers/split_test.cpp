#include "stages/corpus/tokenizers/text/split.h"

#include <boost/test/unit_test.hpp>
#include <string>

BOOST_AUTO_TEST_SUITE(split_test)

using namespace troupe::stages;

namespace {

using Texts = std::vector<std::string_view>;

const Regex& dash() {
  static const Regex regex("-");
  return regex;
}

Texts at_dashes(Delimiters delimiters) {
  return split("the-final--countdown", dash(), delimiters, Matches::are_delimiters);
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_kind_of_delimiter_divides_in_its_way) {
  BOOST_TEST(at_dashes(Delimiters::removed) == (Texts{"the", "final", "countdown"}));
  BOOST_TEST(at_dashes(Delimiters::isolated) ==
             (Texts{"the", "-", "final", "-", "-", "countdown"}));
  BOOST_TEST(at_dashes(Delimiters::merged_with_previous) ==
             (Texts{"the-", "final-", "-", "countdown"}));
  BOOST_TEST(at_dashes(Delimiters::merged_with_next) ==
             (Texts{"the", "-final", "-", "-countdown"}));
  BOOST_TEST(at_dashes(Delimiters::contiguous) == (Texts{"the", "-", "final", "--", "countdown"}));
}

BOOST_AUTO_TEST_CASE(what_lies_between_matches_can_be_the_delimiter) {
  const Regex words("[a-z]+");
  BOOST_TEST(split("ab, cd.", words, Delimiters::removed, Matches::are_kept) ==
             (Texts{"ab", "cd"}));
  BOOST_TEST(split("ab, cd.", words, Delimiters::merged_with_previous, Matches::are_kept) ==
             (Texts{"ab, ", "cd."}));
}

BOOST_AUTO_TEST_CASE(no_part_is_empty) {
  BOOST_TEST(split("", dash(), Delimiters::isolated, Matches::are_delimiters).empty());
  BOOST_TEST(split("--", dash(), Delimiters::removed, Matches::are_delimiters).empty());
}

BOOST_AUTO_TEST_SUITE_END()
