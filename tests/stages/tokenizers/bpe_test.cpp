#include "stages/corpus/tokenizers/models/bpe.h"

#include <fmt/format.h>

#include <boost/test/unit_test.hpp>
#include <random>
#include <string>

#include "tests/stages/tokenizers/random_bpe.h"
#include "tests/support/seed.h"

BOOST_AUTO_TEST_SUITE(bpe_test)

using namespace troupe;
using namespace troupe::stages;
using test::below;

namespace {

using Ids = std::vector<std::int32_t>;

/// The model with tokens for all bytes, so that every character has tokens.
BpeModel with_byte_tokens(BpeModel model) {
  model.byte_fallback = true;
  for (unsigned byte = 0; byte < 256; ++byte)
    model.vocabulary.emplace(fmt::format("<0x{:02X}>", byte),
                             static_cast<std::int32_t>(model.vocabulary.size()));
  return model;
}

/// What the whole word gives, undivided and not cached.
Ids expected_ids(const BpeModel& model, const std::string& word) {
  Ids ids;
  for (const char c : word) {
    const auto token = model.vocabulary.find(std::string(1, c));
    ids.push_back(
        token != model.vocabulary.end()
            ? token->second
            : model.vocabulary.at(fmt::format("<0x{:02X}>", static_cast<unsigned char>(c))));
  }
  return test::plain_merge(ids, model.merges);
}

Ids encoded(const Bpe& bpe, std::string_view word, Bpe::Scratch& scratch) {
  Ids ids;
  bpe.encode(word, scratch, ids);
  return ids;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_long_word_has_the_ids_of_the_plain_algorithm) {
  std::mt19937_64 random(test::fresh_seed());
  for (int round = 0; round < 100; ++round) {
    const test::RandomBpe made(random);
    const BpeModel model = with_byte_tokens(made.model);
    const Bpe bpe(model, Bpe::Units::characters);
    Bpe::Scratch scratch;
    for (int i = 0; i < 5; ++i) {  // the later words find parts in the cache
      std::string word = made.text(random, below(random, 4 * WordCache::kLongestWord));
      if (i % 2 == 0) word += "x\xc3\xa4" + made.text(random, 80);
      BOOST_REQUIRE(encoded(bpe, word, scratch) == expected_ids(model, word));
    }
  }
}

BOOST_AUTO_TEST_CASE(a_model_that_allows_cuts_gives_the_parts_the_ids_of_the_whole) {
  std::mt19937_64 random(test::fresh_seed());
  int allowed = 0;
  for (int round = 0; round < 300; ++round) {
    const test::RandomBpe made(random);
    const BpeModel model = with_byte_tokens(made.model);
    const Bpe bpe(model, Bpe::Units::characters);
    if (!bpe.allows_cuts()) continue;
    ++allowed;
    Bpe::Scratch scratch;
    const std::string before = made.text(random, below(random, 90)) + "\n",
                      after = "a" + made.text(random, below(random, 90));
    Ids parts = encoded(bpe, before, scratch);
    const Ids rest = encoded(bpe, after, scratch);
    parts.insert(parts.end(), rest.begin(), rest.end());
    BOOST_REQUIRE(encoded(bpe, before + after, scratch) == parts);
  }
  BOOST_TEST(allowed > 0);
}

BOOST_AUTO_TEST_CASE(a_token_that_spans_a_newline_allows_no_cut) {
  BpeModel model{.vocabulary = {{"a", 0}, {"\n", 1}, {"\na", 2}}, .merges = {{1, 0, 2}}};
  BOOST_TEST(!Bpe(with_byte_tokens(model), Bpe::Units::characters).allows_cuts());
  model = {.vocabulary = {{"a", 0}, {"\n", 1}, {"a\n", 2}}, .merges = {{0, 1, 2}}};
  BOOST_TEST(Bpe(with_byte_tokens(model), Bpe::Units::characters).allows_cuts());
  // Unknown characters are left out, and their neighbours merged.
  BOOST_TEST(!Bpe(model, Bpe::Units::characters).allows_cuts());
}

BOOST_AUTO_TEST_CASE(a_long_text_of_few_words_is_little_work) {
  const BpeModel model =
      with_byte_tokens({.vocabulary = {{"a", 0}, {"b", 1}, {" ", 2}, {" a", 3}, {" ab", 4}},
                        .merges = {{2, 0, 3}, {3, 1, 4}}});
  const Bpe bpe(model, Bpe::Units::characters);
  Bpe::Scratch scratch;
  std::string text;
  for (int i = 0; i < 100000; ++i) text += " ab";
  const Ids ids = encoded(bpe, text, scratch);
  BOOST_TEST(ids.size() == 100000u);
  BOOST_TEST(scratch.merger.num_candidates() < 100);  // each word came from the cache but the first
}

BOOST_AUTO_TEST_CASE(the_cache_begins_anew_when_it_is_full) {
  WordCache cache;
  const Ids ids = {1, 2};
  for (std::size_t i = 0; i <= WordCache::kMostWords; ++i) cache.insert(std::to_string(i), ids);
  BOOST_TEST(!cache.find("0"));
  const auto last = cache.find(std::to_string(WordCache::kMostWords));
  BOOST_REQUIRE(last);
  BOOST_TEST((Ids(last->begin(), last->end()) == ids));
}

BOOST_AUTO_TEST_SUITE_END()
