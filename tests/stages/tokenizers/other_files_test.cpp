#include "stages/corpus/tokenizers/other_files.h"

#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <vector>

#include "stages/corpus/text/text_files.h"
#include "stages/corpus/tokenizers/ranks/ranked_bpe.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_dir.h"

BOOST_AUTO_TEST_SUITE(other_files_test)

using namespace troupe;
using namespace troupe::stages;
using nlohmann::json;
using test::expect_error;
using Ids = std::vector<std::int32_t>;

namespace {

std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    std::uint32_t bits = 0;
    for (std::size_t i = 0; i < 3; ++i)
      bits = bits << 8 | (at + i < bytes.size() ? static_cast<unsigned char>(bytes[at + i]) : 0);
    for (std::size_t i = 0; i < 4; ++i)
      text += at + i > bytes.size() ? '=' : kDigits[bits >> (18 - 6 * i) & 63];
  }
  return text;
}

/// All bytes, and some words behind them.
std::vector<std::string> tokens() {
  std::vector<std::string> all;
  for (int byte = 0; byte < 256; ++byte) all.emplace_back(1, static_cast<char>(byte));
  for (const char* word : {"ab", "bc", " a", "abc", "aa", "aaa", "\xc3\xa9"})
    all.emplace_back(word);
  return all;
}
constexpr std::int32_t kAb = 256, kBc = 257, kSpaceA = 258, kAbc = 259, kAa = 260, kAaa = 261;

json tekken() {
  json vocabulary = json::array();
  for (const std::string& token : tokens())
    vocabulary.push_back(
        {{"rank", vocabulary.size()}, {"token_bytes", base64(token)}, {"token_str", nullptr}});
  return {{"config",
           {{"pattern", "[^\\s]+|\\s+"},
            {"num_vocab_tokens", vocabulary.size()},
            {"default_vocab_size", vocabulary.size() + 4},
            {"default_num_special_tokens", 5},
            {"version", "v7"}}},
          {"vocab", vocabulary},
          {"special_tokens",
           {{{"rank", 1}, {"token_str", "<s>"}, {"is_control", true}},
            {{"rank", 2}, {"token_str", "</s>"}, {"is_control", true}}}}};
}

std::string tiktoken(std::size_t count = SIZE_MAX) {
  std::string lines;
  std::size_t rank = 0;
  for (const std::string& token : tokens())
    if (rank < count) lines += base64(token) + ' ' + std::to_string(rank++) + '\n';
  return lines;
}

}  // namespace

BOOST_AUTO_TEST_CASE(base64_is_read_or_refused) {
  for (const std::string bytes : {"", "a", "ab", "abc", "\xff\xfe\x00\x3f"})
    BOOST_TEST(bytes_of_base64(base64(bytes)).value() == bytes);
  for (const char* wrong : {"a", "abcde", "a===", "ab!=", "=abc"})
    BOOST_TEST(!bytes_of_base64(wrong), wrong);
}

BOOST_AUTO_TEST_CASE(the_lowest_rank_is_merged_first_and_the_leftmost_of_a_rank) {
  const test::TempDir dir;
  const auto tokenizer = Tokenizer::open(dir.write("o200k_base.tiktoken", tiktoken()));
  BOOST_TEST((tokenizer->encode("abc") == Ids{kAbc}));
  BOOST_TEST((tokenizer->encode("xabc") == Ids{'x', kAbc}));
  BOOST_TEST((tokenizer->encode("bcabc") == Ids{kBc, kAbc}));
  BOOST_TEST((tokenizer->encode(" ab") == Ids{' ', kAb}));
  BOOST_TEST((tokenizer->encode("aaaaa") == Ids{kAa, kAaa}));
  BOOST_TEST((tokenizer->encode(" ax") == Ids{kSpaceA, 'x'}));
  BOOST_TEST(tokenizer->decode(Ids{kSpaceA, kBc, 0xc3, 0xa9}) == " abc\xc3\xa9");
}

BOOST_AUTO_TEST_CASE(a_tekken_has_control_tokens_that_no_text_yields) {
  const test::TempDir dir;
  const auto tokenizer = Tokenizer::open(dir.write("tekken.json", tekken().dump()));
  BOOST_TEST(tokenizer->vocab_size() == 5 + 262);  // the last token is beyond default_vocab_size
  BOOST_TEST((tokenizer->encode("abc ") == Ids{kAbc + 5, ' ' + 5}));
  BOOST_TEST((tokenizer->encode("<s>") == Ids{'<' + 5, 's' + 5, '>' + 5}));
  BOOST_TEST((tokenizer->id_of("</s>") == 2));
  BOOST_TEST(tokenizer->name_of(3) == "<SPECIAL_3>");
  BOOST_TEST(tokenizer->decode(Ids{1, kAb + 5, 2}) == "ab");
  BOOST_TEST(tokenizer->frame().before.empty());
  dir.write("tokenizer_config.json", R"({"add_bos_token": true, "bos_token": "<s>"})");
  const auto framed = Tokenizer::open((dir / "tekken.json").string());
  BOOST_TEST((framed->frame().before == Ids{1}));
  json old = tekken();
  old.erase("special_tokens");
  BOOST_TEST(Tokenizer::open(dir.write("tekken.json", old.dump()))->name_of(3) == "[INST]");
}

BOOST_AUTO_TEST_CASE(a_tekken_that_is_broken_is_refused_by_its_part) {
  const test::TempDir dir;
  const std::vector<std::tuple<std::string, json, std::string>> cases = {
      {"/config/pattern", "\\w", "exactly"},
      {"/config/default_vocab_size", 1000000, "has 263 tokens"},
      {"/config/default_vocab_size", -1, "default_vocab_size"},
      {"/config/default_num_special_tokens", 100000, "more than"},
      {"/vocab/7/rank", 8, "token 7: its rank"},
      {"/vocab/7/token_bytes", "?", "token 7: \"token_bytes\" is no base64"},
      {"/vocab/7/token_bytes", base64("a"), "rank 97"},
      {"/vocab/7", 1, "token 7: must be an object"},
      {"/special_tokens/0/rank", 5, "not below the 5"},
      {"/special_tokens/0/token_str", 5, "must be a text"},
  };
  for (const auto& [place, value, why] : cases) {
    json content = tekken();
    content[json::json_pointer(place)] = value;
    const std::string path = dir.write("tekken.json", content.dump());
    expect_error(ErrorKind::data, {"tekken.json", why}, [&] { Tokenizer::open(path); });
  }
}

BOOST_AUTO_TEST_CASE(a_file_of_tiktoken_is_known_by_its_name_or_what_is_beside_it) {
  const test::TempDir dir;
  BOOST_TEST(is_tiktoken(dir.write("a", tiktoken())));
  BOOST_TEST(!is_tiktoken(dir.write("a", "AA 0 0\n")));
  BOOST_TEST(!is_tiktoken(dir.write("a", "AAAA 1\n")));
  BOOST_TEST(!is_tiktoken((dir / "nowhere").string()));
  const std::string path = dir.write("tokenizer.model", tiktoken());
  expect_error(ErrorKind::data, {"tokenizer.model", "no pattern", "Llama 3"},
               [&] { Tokenizer::open(path); });
  dir.write("tokenizer_config.json",
            R"({"tokenizer_class": "TikTokenTokenizer",
                "added_tokens_decoder": {"300": {"content": "<x>", "special": true}}})");
  const auto kimi = Tokenizer::open(path);
  BOOST_TEST(kimi->vocab_size() == 301);
  BOOST_TEST((kimi->encode("ab<x>") == Ids{kAb, 300}));
  dir.write("tokenizer_config.json",
            R"({"tokenizer_class": "TikTokenTokenizer",
                "added_tokens_decoder": {"30": {"content": "<x>", "special": true}}})");
  expect_error(ErrorKind::data, {"<x>", "the id 30", "the model's"},
               [&] { Tokenizer::open(path); });
  const std::string lines = tiktoken();
  for (const auto& [content, why] :
       {std::pair(lines + "x\n", "o200k_base.tiktoken:264: expected"),
        std::pair(lines + base64("ab") + " 263\n", "that of another rank"),
        std::pair(tiktoken(200), "0xC8 is no token")})
    expect_error(ErrorKind::data, {"o200k_base.tiktoken", why},
                 [&, c = content] { Tokenizer::open(dir.write("o200k_base.tiktoken", c)); });
}

BOOST_AUTO_TEST_CASE(a_vocabulary_is_read_with_the_merges_beside_it) {
  const test::TempDir dir;
  const std::string path = dir.write(
      "vocab.json", R"({"a": 0, "b": 1, "ab": 2, "\u0120": 3, "<|endoftext|>": 4, "c": 5})");
  expect_error(ErrorKind::data, {"vocab.json", "\"model\" is missing"},
               [&] { Tokenizer::open(path); });
  dir.write("merges.txt", "#version: 0.2\r\na b\r\n\n");
  const auto gpt2 = Tokenizer::open(path);
  BOOST_TEST((gpt2->encode("ab a<|endoftext|>") == Ids{2, 3, 0, 4}));
  BOOST_TEST(gpt2->decode(Ids{2, 3, 0, 4}) == "ab a");
  dir.write("tokenizer_config.json", R"({"tokenizer_class": "Qwen2Tokenizer"})");
  BOOST_TEST((Tokenizer::open(path)->encode("ab ab") == Ids{2, 3, 2}));
  dir.write("tokenizer_config.json", R"({"tokenizer_class": "CLIPTokenizer"})");
  expect_error(ErrorKind::data, {"CLIPTokenizer", "GPT2Tokenizer"}, [&] { Tokenizer::open(path); });
  dir.write("tokenizer_config.json", "{}");
  dir.write("merges.txt", "a b\na x\n");
  expect_error(ErrorKind::data, {"merge 1", "\"x\" is not in the vocabulary"},
               [&] { Tokenizer::open(path); });
}

BOOST_AUTO_TEST_SUITE_END()
