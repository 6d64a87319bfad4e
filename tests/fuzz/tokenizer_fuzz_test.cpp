#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>

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

}  // namespace

BOOST_AUTO_TEST_CASE(any_tokenizer_file_encodes_and_decodes_or_is_refused) {
  std::mt19937_64 random(test::fresh_seed());
  const test::TempDir dir;
  Tokenizer::open(dir.write("sound.json", kSound));
  int accepted = 0;
  for (int round = 0; round < 5000; ++round) {
    const std::string path = dir.write("x.json", test::mutated(kSound, random));
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
    } catch (const Error& error) {
      BOOST_REQUIRE(error.kind() == ErrorKind::data);
    }
  }
  BOOST_TEST_MESSAGE(accepted << " of 5000 mutated files were accepted");
  BOOST_TEST(accepted > 0);
}

BOOST_AUTO_TEST_SUITE_END()
