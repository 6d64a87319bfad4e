#include "stages/corpus/tokenizers/added_tokens.h"

#include <boost/test/unit_test.hpp>
#include <string>

BOOST_AUTO_TEST_SUITE(added_tokens_test)

using namespace troupe::stages;

namespace {

/// The sections of a text: tokens as [id], text as it is.
std::string sections(const std::vector<AddedToken>& tokens, std::string_view text) {
  std::string result;
  for (const auto& [part, token] : AddedTokens(tokens, Normalizer({})).split(text))
    result += token ? "[" + std::to_string(*token) + "]" : "'" + std::string(part) + "'";
  return result;
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_leftmost_token_is_found_and_of_these_the_longest) {
  const std::vector<AddedToken> tokens = {
      {.content = "<a>", .id = 1}, {.content = "<a>b", .id = 2}, {.content = "b", .id = 3}};
  BOOST_TEST(sections(tokens, "x<a>bb<a>c") == "'x'[2][3][1]'c'");
  BOOST_TEST(sections(tokens, "<a<a>") == "'<a'[1]");
  BOOST_TEST(sections(tokens, "") == "");
  BOOST_TEST(sections({}, "x") == "'x'");
}

BOOST_AUTO_TEST_CASE(tokens_take_white_space_only_where_they_say_so) {
  const std::string text = "a \t\xe3\x80\x80<t> \n b";
  BOOST_TEST(sections({{.content = "<t>", .id = 1}}, text) == "'a \t\xe3\x80\x80'[1]' \n b'");
  BOOST_TEST(sections({{.content = "<t>", .id = 1, .lstrip = true}}, text) == "'a'[1]' \n b'");
  BOOST_TEST(sections({{.content = "<t>", .id = 1, .rstrip = true}}, text) ==
             "'a \t\xe3\x80\x80'[1]'b'");
}

BOOST_AUTO_TEST_CASE(a_token_of_white_space_that_another_took_is_dropped_if_nothing_is_left) {
  AddedToken newline = {.content = "\n", .id = 1, .rstrip = true};
  BOOST_TEST(sections({newline}, "a \n \n x\n") == "'a '[1][1]'x'[1]");
  newline.lstrip = true;
  BOOST_TEST(sections({newline}, "a \n \n x\n") == "'a'[1]'x'[1]");
}

BOOST_AUTO_TEST_CASE(a_single_word_touches_no_other) {
  const std::vector<AddedToken> tokens = {{.content = "hat", .id = 1, .single_word = true}};
  BOOST_TEST(sections(tokens, "hat hats that hat-hat _hat") == "[1]' hats that '[1]'-'[1]' _hat'");
  // An accent belongs to a word, a superscript does not.
  BOOST_TEST(sections(tokens, "hat\xcc\x81 hat\xc2\xb2") == "'hat\xcc\x81 '[1]'\xc2\xb2'");
}

BOOST_AUTO_TEST_CASE(normalized_tokens_are_found_in_the_normalized_text_alone) {
  const std::vector<AddedToken> tokens = {{.content = "a", .id = 1, .normalized = true}};
  const AddedTokens added(tokens, Normalizer({}));
  BOOST_TEST(added.split("ab").size() == 1u);
  BOOST_TEST(added.split_normalized("ab").size() == 2u);
}

BOOST_AUTO_TEST_CASE(a_token_that_may_take_a_newline_allows_no_cut) {
  const auto allows = [](const AddedToken& token) {
    return AddedTokens({token}, Normalizer({})).allows_cuts();
  };
  BOOST_TEST(allows({.content = "<t>"}));
  BOOST_TEST(!allows({.content = "<t>", .lstrip = true}));
  BOOST_TEST(!allows({.content = "<t>", .rstrip = true}));
  BOOST_TEST(!allows({.content = "\n", .normalized = true}));
}

BOOST_AUTO_TEST_SUITE_END()
