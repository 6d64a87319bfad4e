#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "stages/corpus/tokenizers/text/utf8.h"
#include "stages/corpus/tokenizers/tokenizer.h"
#include "tests/support/mutate.h"
#include "tests/support/seed.h"
#include "tests/support/temp_dir.h"

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(token_bounds_test)

namespace {

using nlohmann::json;
using stages::Tokenizer;

/// Tokenizers, and texts to encode with them.
json goldens() {
  std::ifstream file(std::filesystem::path(__FILE__).parent_path() / "golden.json");
  return json::parse(file);
}

/// Bytes between the characters of a text, some of them, in ascending order.
std::vector<std::size_t> some_bounds(std::string_view text, std::mt19937_64& random) {
  std::vector<std::size_t> bounds;
  for (std::size_t at = 0; at < text.size(); at += stages::first_char_bytes(text.substr(at)))
    while (below(random, 4) == 0) bounds.push_back(at);
  bounds.push_back(text.size());
  return bounds;
}

}  // namespace

BOOST_AUTO_TEST_CASE(where_tokens_end_as_many_are_before_as_the_text_up_to_there_has) {
  std::mt19937_64 random(fresh_seed());
  const TempDir dir;
  int ending = 0;
  for (const json& golden : goldens()) {
    const auto tokenizer = Tokenizer::open(dir.write("x.json", golden["tokenizer"].dump()));
    std::string text;
    for (const json& one : golden["texts"]) text += one["text"].get<std::string>() + "</s>";
    for (int round = 0; round < 3; ++round) {
      const auto ids = tokenizer->encode(text);
      const auto bounds = some_bounds(text, random);
      const auto counts = tokenizer->tokens_before(text, ids, bounds);
      BOOST_REQUIRE(counts.size() == bounds.size());
      BOOST_TEST(std::ranges::is_sorted(counts));
      BOOST_TEST(counts.back() == ids.size());
      for (std::size_t i = 0; i < bounds.size(); ++i) {
        const auto before = tokenizer->encode(text.substr(0, bounds[i]));
        if (before.size() > ids.size() || !std::equal(before.begin(), before.end(), ids.begin()))
          continue;
        BOOST_REQUIRE_MESSAGE(counts[i] == before.size(), golden["name"] << ", byte " << bounds[i]);
        ++ending;
      }
    }
  }
  BOOST_TEST(ending > 1000);
}

BOOST_AUTO_TEST_CASE(a_token_that_reaches_over_a_byte_is_behind_it) {
  const TempDir dir;
  const json tokenizer{{"version", "1.0"},
                       {"model",
                        {{"type", "BPE"},
                         {"vocab", {{"a", 0}, {"b", 1}, {"ab", 2}}},
                         {"merges", json::array({json::array({"a", "b"})})}}}};
  const auto opened = Tokenizer::open(dir.write("x.json", tokenizer.dump()));
  const std::string text = "aabb";
  const auto ids = opened->encode(text);
  BOOST_REQUIRE((ids == std::vector<std::int32_t>{0, 2, 1}));
  const std::vector<std::size_t> bytes{0, 1, 2, 2, 3, 4};
  BOOST_TEST(
      (opened->tokens_before(text, ids, bytes) == std::vector<std::size_t>{0, 1, 1, 1, 2, 3}));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
