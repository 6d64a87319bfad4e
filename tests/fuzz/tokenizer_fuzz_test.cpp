#include <fmt/format.h>

#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>

#include "stages/corpus/tokenizers/text/byte_alphabet.h"
#include "stages/corpus/tokenizers/tokenizer.h"
#include "tensor/errors/error.h"
#include "tests/support/mutate.h"
#include "tests/support/seed.h"
#include "tests/support/temp_dir.h"

BOOST_AUTO_TEST_SUITE(tokenizer_fuzz_test)

using namespace troupe;
using namespace troupe::stages;

namespace {

/// A tokenizer.json with something of every kind that is supported.
const std::string kSound = R"json({"version":"1.0",
"added_tokens":[{"id":5,"content":"<s>","lstrip":true,"special":true},
{"id":6,"content":"ba","single_word":true,"normalized":true}],
"normalizer":{"type":"Sequence","normalizers":[{"type":"Prepend","prepend":"_"},
{"type":"Replace","pattern":{"String":" "},"content":"_"}]},
"pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"Digits","individual_digits":true},
{"type":"Split","pattern":{"Regex":"a[^b]|\\s+(?!\\S)"},"behavior":"Isolated","invert":false},
{"type":"Metaspace","replacement":"_","prepend_scheme":"always","split":true}]},
"post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<s>"}},
{"Sequence":{"id":"A"}}],"special_tokens":{"<s>":{"ids":[5]}}},
"decoder":{"type":"Sequence","decoders":[{"type":"Replace","pattern":{"String":"_"},"content":" "},
{"type":"ByteFallback"},{"type":"Fuse"},{"type":"Strip","content":" ","start":1,"stop":0}]},
"model":{"type":"BPE","unk_token":"_","fuse_unk":true,"byte_fallback":true,"ignore_merges":false,
"vocab":{"a":0,"b":1,"ab":2,"_":3,"<0x0A>":4},"merges":[["a","b"]]}})json";

/// Another one, of what the first cannot have beside it.
const std::string kUnigram = R"json({"added_tokens":[{"id":0,"content":"<unk>","special":true}],
"normalizer":{"type":"Sequence","normalizers":[{"type":"NFKC"},{"type":"Strip","strip_left":true,
"strip_right":false},{"type":"Lowercase"},{"type":"StripAccents"},{"type":"BertNormalizer",
"clean_text":true,"handle_chinese_chars":true,"strip_accents":null,"lowercase":true}]},
"pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"Whitespace"},{"type":"Punctuation",
"behavior":"Contiguous"},{"type":"WhitespaceSplit"},{"type":"BertPreTokenizer"}]},
"post_processor":{"type":"BertProcessing","sep":["a",1],"cls":["b",2]},
"decoder":{"type":"WordPiece","prefix":"##","cleanup":true},
"model":{"type":"Unigram","unk_id":0,"byte_fallback":true,
"vocab":[["<unk>",0.0],["a",-1.5],["b",-2],["ab",-2.5],["<0x0A>",-3]]}})json";

const std::string kWordPiece = R"json({"pre_tokenizer":{"type":"Sequence","pretokenizers":[
{"type":"Split","pattern":{"Regex":"[\\p{Han}&&[^a-c[x]]]|(?i:[ab])"},"behavior":"Removed"},
{"type":"Digits"}]},"model":{"type":"WordPiece","unk_token":"[UNK]","max_input_chars_per_word":5,
"continuing_subword_prefix":"##","vocab":{"[UNK]":0,"a":1,"##b":2,"ab":3,"##c":4}}})json";

/// Steps behind ByteLevel, and all bytes.
std::string byte_level() {
  nlohmann::json vocabulary;
  for (int byte = 0; byte < 256; ++byte)
    vocabulary[letter_of_byte(static_cast<unsigned char>(byte))] = byte;
  const nlohmann::json content = {
      {"pre_tokenizer",
       {{"type", "Sequence"},
        {"pretokenizers",
         {{{"type", "ByteLevel"}},
          {{"type", "Split"}, {"pattern", {{"String", "a"}}}, {"behavior", "MergedWithNext"}}}}}},
      {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", nlohmann::json::array()}}}};
  return content.dump();
}

/// Tokens of all bytes and "ab" in base64.
std::vector<std::string> ranked_tokens() {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::vector<std::string> tokens;
  for (std::size_t byte = 0; byte < 256; ++byte)
    tokens.push_back({kDigits[byte >> 2], kDigits[byte << 4 & 63], '=', '='});
  tokens.emplace_back("YWI=");
  return tokens;
}

std::string tekken() {
  nlohmann::json vocabulary = nlohmann::json::array();
  for (const std::string& token : ranked_tokens())
    vocabulary.push_back({{"rank", vocabulary.size()}, {"token_bytes", token}});
  const nlohmann::json content = {{"special_tokens", {{{"rank", 1}, {"token_str", "<s>"}}}},
                                  {"config",
                                   {{"pattern", "\\s+|[^\\s]+"},
                                    {"default_vocab_size", 260},
                                    {"default_num_special_tokens", 3}}},
                                  {"vocab", vocabulary}};
  return content.dump();
}

std::string tiktoken() {
  std::string lines;
  int rank = 0;
  for (const std::string& token : ranked_tokens()) lines += token + fmt::format(" {}\n", rank++);
  return lines;
}

/// Opens mutated files under a name. Each encodes and decodes, or is refused. Returns how many do.
int count_accepted(const std::string& name, const std::string& sound, int rounds) {
  std::mt19937_64 random(test::fresh_seed());
  const test::TempDir dir;
  dir.write("merges.txt", "a b\n");
  Tokenizer::open(dir.write(name, sound));
  int accepted = 0;
  for (int round = 0; round < rounds; ++round) {
    const std::string path = dir.write(name, test::mutated(sound, random));
    try {
      const auto tokenizer = Tokenizer::open(path);
      ++accepted;
      std::string text = "<s> ab ba\nab 12 \xff\xe2\x82\xac <s>x aab";
      test::mutate_once(text, random);
      for (const std::int32_t id : tokenizer->encode(text)) {
        BOOST_REQUIRE(id >= 0);
        BOOST_REQUIRE(id < tokenizer->vocab_size());
      }
      tokenizer->decode(tokenizer->encode(text, Place::after_newline));
      BOOST_REQUIRE(tokenizer->cuts().last_in(text) <= text.size());
    } catch (const Error& error) {
      BOOST_REQUIRE(error.kind() == ErrorKind::data);
      BOOST_REQUIRE(!std::string_view(error.what()).empty());
    }
  }
  BOOST_TEST_MESSAGE(accepted << " of " << rounds << " mutated files were accepted");
  return accepted;
}

}  // namespace

BOOST_AUTO_TEST_CASE(any_tokenizer_file_encodes_and_decodes_or_is_refused) {
  BOOST_TEST(count_accepted("x.json", kSound, 3000) > 0);
  BOOST_TEST(count_accepted("x.json", kUnigram, 2000) > 0);
  BOOST_TEST(count_accepted("x.json", kWordPiece, 2000) > 0);
  BOOST_TEST(count_accepted("x.json", byte_level(), 500) > 0);
}

BOOST_AUTO_TEST_CASE(any_file_of_ranks_or_merges_encodes_and_decodes_or_is_refused) {
  count_accepted("tekken.json", tekken(), 500);  // next to every change leaves a token out
  count_accepted("o200k_base.tiktoken", tiktoken(), 500);
  BOOST_TEST(count_accepted("vocab.json", R"({"a":0,"b":1,"ab":2})", 1000) > 0);
}

BOOST_AUTO_TEST_SUITE_END()
