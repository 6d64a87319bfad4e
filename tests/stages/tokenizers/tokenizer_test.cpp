#include "stages/corpus/tokenizers/tokenizer.h"

#include <boost/test/unit_test.hpp>

#include "tests/support/expect_error.h"
#include "tests/support/sentencepiece_model.h"
#include "tests/support/temp_dir.h"

BOOST_AUTO_TEST_SUITE(tokenizer_test)

using namespace troupe;
using namespace troupe::stages;
using test::expect_error;

BOOST_AUTO_TEST_CASE(an_id_of_bytes_is_the_byte) {
  const auto tokenizer = Tokenizer::open("bytes");
  BOOST_TEST(tokenizer->vocab_size() == 256);
  std::string all;
  for (int b = 0; b < 256; ++b) all += static_cast<char>(b);
  const std::vector<std::int32_t> ids = tokenizer->encode(all);
  BOOST_REQUIRE(ids.size() == 256u);
  for (int b = 0; b < 256; ++b) BOOST_TEST(ids[static_cast<std::size_t>(b)] == b);
  BOOST_TEST(tokenizer->decode(ids) == all);
  BOOST_TEST(tokenizer->encode("").empty());
}

BOOST_AUTO_TEST_CASE(a_sentencepiece_model_encodes_and_decodes) {
  const test::TempDir dir;
  const auto tokenizer = Tokenizer::open(dir.write("tok.model", test::sentencepiece_model()));
  BOOST_TEST(tokenizer->vocab_size() == 3 + 5 + 26);
  const std::vector<std::int32_t> expected = {3, 6, 4, 5, 7};  // the, space, cat, " sat", newline
  BOOST_TEST(tokenizer->encode("the cat sat\n") == expected, boost::test_tools::per_element());
  BOOST_TEST(tokenizer->decode(expected) == "the cat sat\n");
  BOOST_TEST(tokenizer->decode({}).empty());
}

BOOST_AUTO_TEST_CASE(a_sentencepiece_model_has_the_frame_that_the_file_beside_it_asks_for) {
  const test::TempDir dir;
  const std::string model = dir.write("tok.model", test::sentencepiece_model());
  const auto framed = [&](const std::string& config) {
    dir.write("tokenizer_config.json", config);
    const auto tokenizer = Tokenizer::open(model);
    auto ids = tokenizer->encode_prompt("the", tokenizer->frame().before);
    for (const std::int32_t id : tokenizer->frame().after) ids.push_back(id);
    return ids;
  };
  const auto id_of = [&](const char* token) {
    return Tokenizer::open(model)->id_of(token).value();
  };
  const std::int32_t bos = id_of("<s>"), eos = id_of("</s>"), the = 3;
  using Ids = std::vector<std::int32_t>;
  // As LlamaTokenizer of transformers 5.23 has them.
  BOOST_TEST((Tokenizer::open(model)->encode_prompt("the", {}) == Ids{the}));
  BOOST_TEST((framed("{}") == Ids{the}));
  BOOST_TEST((framed(R"({"add_bos_token": true})") == Ids{bos, the}));
  BOOST_TEST((framed(R"({"add_bos_token": false, "add_eos_token": null})") == Ids{the}));
  BOOST_TEST((framed(R"({"add_bos_token": true, "add_eos_token": true})") == Ids{bos, the, eos}));
  BOOST_TEST(
      (framed(R"({"add_bos_token": true, "bos_token": {"content": "</s>"}})") == Ids{eos, the}));
  BOOST_TEST((framed(R"({"add_bos_token": true, "bos_token": null})") == Ids{the}));
  // A token that the model lacks follows the others.
  BOOST_TEST((framed(R"({"add_bos_token": true, "bos_token": "<new>"})") == Ids{3 + 5 + 26, the}));
  expect_error(ErrorKind::data, {"tokenizer_config.json: no JSON: line 1, column 2: syntax error"},
               [&] { framed("["); });
}

BOOST_AUTO_TEST_CASE(a_text_behind_a_newline_has_no_dummy_prefix) {
  const test::TempDir dir;
  const auto tokenizer =
      Tokenizer::open(dir.write("tok.model", test::sentencepiece_model(0, true)));
  const std::vector<std::int32_t> first = {6, 3}, later = {3};
  BOOST_TEST(tokenizer->encode("the") == first, boost::test_tools::per_element());
  BOOST_TEST(tokenizer->encode("the", Place::after_newline) == later,
             boost::test_tools::per_element());
  BOOST_TEST(tokenizer->encode("", Place::after_newline).empty());
}

BOOST_AUTO_TEST_CASE(tokens_are_known_by_name) {
  const test::TempDir dir;
  const auto tokenizer = Tokenizer::open(dir.write("tok.model", test::sentencepiece_model()));
  BOOST_TEST((tokenizer->id_of("</s>") == 2));
  BOOST_TEST((tokenizer->id_of("<unk>") == 0));
  BOOST_TEST(!tokenizer->id_of("<eot>"));
  BOOST_TEST((Tokenizer::open("bytes")->id_of("\xff") == 255));
  BOOST_TEST(!Tokenizer::open("bytes")->id_of("</s>"));
}

BOOST_AUTO_TEST_CASE(an_id_outside_the_vocabulary_is_refused) {
  const test::TempDir dir;
  const std::string model = dir.write("tok.model", test::sentencepiece_model());
  for (const std::string& name : {std::string("bytes"), model}) {
    const auto tokenizer = Tokenizer::open(name);
    for (const std::int32_t id : {-1, tokenizer->vocab_size()})
      expect_error(ErrorKind::data, {"token id " + std::to_string(id)}, [&] {
        tokenizer->decode(std::vector{5, id});
      });
  }
}

BOOST_AUTO_TEST_CASE(what_is_no_model_is_refused_by_name) {
  const test::TempDir dir;
  expect_error(ErrorKind::data, {"nowhere.model", "No such file"},
               [&] { Tokenizer::open((dir / "nowhere.model").string()); });
  for (const std::string& content :
       {std::string(), std::string("not a model"), std::string(5000, '\xff')})
    expect_error(ErrorKind::data, {"bad.model", "not a SentencePiece model", "bytes"},
                 [&] { Tokenizer::open(dir.write("bad.model", content)); });
}

BOOST_AUTO_TEST_SUITE_END()
