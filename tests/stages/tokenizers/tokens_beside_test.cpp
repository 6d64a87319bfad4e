#include "stages/corpus/tokenizers/tokens_beside.h"

#include <boost/test/unit_test.hpp>
#include <fstream>
#include <nlohmann/json.hpp>

#include "stages/corpus/tokenizers/tokenizer.h"
#include "tests/support/expect_error.h"
#include "tests/support/sentencepiece_model.h"
#include "tests/support/temp_dir.h"

// Tests tokens that files beside a tokenizer name.

BOOST_AUTO_TEST_SUITE(tokens_beside_test)

using namespace troupe;
using namespace troupe::stages;
using nlohmann::ordered_json;
using test::expect_error;

namespace {

using Ids = std::vector<std::int32_t>;

/// A tokenizer, and files beside it with the ids that transformers gives (make_beside_golden.py).
ordered_json golden() {
  std::ifstream file(std::filesystem::path(__FILE__).parent_path() / "beside_golden.json");
  return ordered_json::parse(file);
}

Ids framed(const Tokenizer& tokenizer, const std::string& text) {
  Ids ids = tokenizer.encode_prompt(text, tokenizer.frame().before);
  for (const std::int32_t id : tokenizer.frame().after) ids.push_back(id);
  return ids;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(tokens_beside_a_tokenizer)

BOOST_AUTO_TEST_CASE(have_the_ids_of_the_real_library) {
  const ordered_json content = golden();
  for (const ordered_json& one : content["cases"]) {
    const test::TempDir dir;
    for (const auto& [name, file] : one["files"].items()) dir.write(name, file.dump());
    const auto tokenizer =
        Tokenizer::open(dir.write("tokenizer.json", content["tokenizer"].dump()));
    for (const ordered_json& expected : one["texts"]) {
      const std::string text = expected["text"];
      BOOST_TEST_CONTEXT(one["files"] << " of " << expected["text"]) {
        BOOST_TEST(tokenizer->encode(text) == expected["ids"].get<Ids>(),
                   boost::test_tools::per_element());
        BOOST_TEST(framed(*tokenizer, text) == expected["framed"].get<Ids>(),
                   boost::test_tools::per_element());
        BOOST_TEST(tokenizer->decode(framed(*tokenizer, text)) ==
                   expected["decoded"].get<std::string>());
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(are_refused_where_their_ids_are_others) {
  const ordered_json content = golden();
  const auto refused = [&](const char* name, const char* file,
                           const std::vector<std::string>& words) {
    const test::TempDir dir;
    dir.write(name, file);
    const std::string path = dir.write("tokenizer.json", content["tokenizer"].dump());
    expect_error(ErrorKind::data, words, [&] { Tokenizer::open(path); });
  };
  refused("tokenizer_config.json", R"({"added_tokens_decoder": {"300": {"content": "<y>"}}})",
          {"tokenizer_config.json: added_tokens_decoder.300",
           R"(the token "<y>" has the id 300 there, but in the tokenizer 258)"});
  refused("added_tokens.json", R"({"<y>": 257})",
          {"added_tokens.json: <y>", "has the id 257 there, but in the tokenizer 258"});
  refused("added_tokens.json", R"({"<y>": "1"})", {"added_tokens.json", "must be an integer"});
  refused("tokenizer_config.json", R"({"added_tokens_decoder": {"a": {"content": "<y>"}}})",
          {"added_tokens_decoder.a", "its name must be an id"});
  refused("tokenizer_config.json", R"({"added_tokens_decoder": [1]})", {"must be an object"});
  refused("tokenizer_config.json", R"({"extra_special_tokens": "<y>"})", {"must be a list"});
  refused("tokenizer_config.json", R"({"eos_token": {"id": 1}})", {"\"content\" is missing"});
  refused("tokenizer_config.json",
          R"({"tokenizer_class": "GPT2TokenizerFast", "add_prefix_space": true})",
          {"tokenizer_config.json: add_prefix_space is true", "made for false"});
}

BOOST_AUTO_TEST_CASE(are_counted_where_a_model_may_lack_their_rows) {
  const test::TempDir dir;
  dir.write("tokenizer_config.json", R"({"pad_token": "[PAD]", "eos_token": "<own>"})");
  const auto tokenizer = Tokenizer::open(dir.write("tokenizer.json", golden()["tokenizer"].dump()));
  BOOST_TEST(tokenizer->vocab_size() == 259);
  BOOST_TEST(count_named_from(*tokenizer, 259) == 0);
  BOOST_TEST(count_named_from(*tokenizer, 258) == 1);
  BOOST_TEST(count_named_from(*tokenizer, 256) == 2);
  BOOST_TEST(count_named_from(*Tokenizer::open("bytes"), 0) == 0);
}

BOOST_AUTO_TEST_CASE(are_found_in_a_text_for_a_sentencepiece_model_too) {
  const test::TempDir dir;
  const std::string model = dir.write("tokenizer.model", test::sentencepiece_model(0, true));
  const auto alone = Tokenizer::open(model);
  const Ids cat = alone->encode("the cat");
  const std::int32_t next = alone->vocab_size();
  BOOST_TEST(alone->encode("<s>the cat").front() != alone->id_of("<s>").value());
  const auto expected = [](std::vector<Ids> parts) {
    Ids all;
    for (const Ids& part : parts) all.insert(all.end(), part.begin(), part.end());
    return all;
  };
  dir.write("added_tokens.json", ordered_json{{"<x>", next}}.dump());
  const auto with_token = Tokenizer::open(model);
  BOOST_TEST(with_token->vocab_size() == next + 1);
  BOOST_TEST((with_token->encode("the cat<x>the cat</s>") ==
              expected({cat, {next}, cat, {alone->id_of("</s>").value()}})));
  BOOST_TEST(with_token->decode(with_token->encode("the cat<x>the cat</s>")) ==
             "the cat<x>the cat");
  // A dummy prefix stands only before the text itself.
  dir.write("tokenizer_config.json", R"({"tokenizer_class": "LlamaTokenizer", "legacy": false})");
  const auto llama = Tokenizer::open(model);
  BOOST_TEST((llama->encode("the cat<x>the cat") ==
              expected({cat, {next}, alone->encode("the cat", Place::after_newline)})));
  BOOST_TEST(llama->decode(llama->encode("the cat<x>the cat")) == "the cat<x>the cat");
  BOOST_TEST(llama->decode(llama->encode("the cat<x> the cat")) == "the cat<x> the cat");
  dir.write("added_tokens.json", ordered_json{{"<x>", next + 1}}.dump());
  expect_error(ErrorKind::data, {"added_tokens.json: <x>", "in the tokenizer"},
               [&] { Tokenizer::open(model); });
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE_END()
