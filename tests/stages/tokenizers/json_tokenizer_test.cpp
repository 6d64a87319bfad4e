#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <set>

#include "stages/corpus/text/text_files.h"
#include "stages/corpus/tokenizers/tokenizer.h"
#include "tests/support/expect_error.h"
#include "tests/support/mutate.h"
#include "tests/support/seed.h"
#include "tests/support/temp_dir.h"

BOOST_AUTO_TEST_SUITE(json_tokenizer_test)

using namespace troupe;
using namespace troupe::stages;
using nlohmann::json;
using test::below;
using test::expect_error;

namespace {

using Ids = std::vector<std::int32_t>;

/// Tokenizers with what the real library gives (make_golden.py).
json goldens() {
  json all = json::array();
  for (const char* name : {"golden.json", "golden_steps.json"}) {
    std::ifstream file(std::filesystem::path(__FILE__).parent_path() / name);
    for (json& golden : json::parse(file)) all.push_back(std::move(golden));
  }
  return all;
}

struct Fixture {
  test::TempDir dir;

  std::unique_ptr<Tokenizer> open(const json& content) {
    return Tokenizer::open(dir.write("x.json", content.dump()));
  }
};

/// The ids of a document that is cut wherever the tokenizer allows it.
Ids ids_of_pieces(const Tokenizer& tokenizer, const std::string& text) {
  Ids ids;
  for_each_piece_of(text, tokenizer.cuts(), [&](const Piece& piece) {
    const Ids more = tokenizer.encode(piece.text, piece.place);
    ids.insert(ids.end(), more.begin(), more.end());
  });
  return ids;
}

/// A smallest file that is right.
json small() {
  return {{"version", "1.0"},
          {"added_tokens", {{{"id", 3}, {"content", "<s>"}, {"special", true}}}},
          {"pre_tokenizer", {{"type", "Metaspace"}, {"replacement", "_"}}},
          {"model",
           {{"type", "BPE"},
            {"vocab", {{"a", 0}, {"b", 1}, {"ab", 2}}},
            {"merges", json::array({json::array({"a", "b"})})}}}};
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(json_tokenizer, Fixture)

BOOST_AUTO_TEST_CASE(ids_and_texts_are_those_of_the_real_library) {
  for (const json& golden : goldens()) {
    const auto tokenizer = open(golden["tokenizer"]);
    for (const json& expected : golden["texts"]) {
      const std::string text = expected["text"];
      const Ids ids = expected["ids"], with_frame = expected["framed"];
      BOOST_TEST_CONTEXT(golden["name"] << " of " << expected["text"]) {
        BOOST_TEST(tokenizer->encode(text) == ids, boost::test_tools::per_element());
        Ids framed = tokenizer->encode_prompt(text, tokenizer->frame().before);
        const Ids after = tokenizer->frame().after;
        framed.insert(framed.end(), after.begin(), after.end());
        BOOST_TEST(framed == with_frame, boost::test_tools::per_element());
        BOOST_TEST(tokenizer->decode(with_frame) == expected["decoded"].get<std::string>());
      }
    }
  }
}

/// A text that is long enough to be cut, of the texts of a golden file. A line has `line_texts` of
/// them, or there is only one line if that is 0.
std::string long_text(const json& golden, std::size_t line_texts, std::mt19937_64& random) {
  std::string text;
  while (text.size() < 4 * kPieceBytes) {
    std::string part = golden["texts"][below(random, golden["texts"].size())]["text"];
    if (line_texts == 0) std::ranges::replace(part, '\n', ' ');
    text += part;
    if (line_texts != 0 && below(random, line_texts) == 0) text += '\n';
  }
  return text;
}

BOOST_AUTO_TEST_CASE(a_document_has_the_same_ids_however_it_is_cut) {
  std::mt19937_64 random(test::fresh_seed());
  std::set<std::string> cut_at_lines, cut_at_words;
  for (const json& golden : goldens()) {
    const auto tokenizer = open(golden["tokenizer"]);
    if (tokenizer->cuts().are_nowhere()) continue;
    for (int round = 0; round < 24; ++round) {
      const std::string text = long_text(golden, static_cast<std::size_t>(round % 3), random);
      int pieces = 0;
      for_each_piece_of(text, tokenizer->cuts(), [&](const Piece& /*piece*/) { ++pieces; });
      if (pieces > 1) (round % 3 == 0 ? cut_at_words : cut_at_lines).insert(golden["name"]);
      BOOST_REQUIRE_MESSAGE(ids_of_pieces(*tokenizer, text) == tokenizer->encode(text),
                            golden["name"]);
    }
  }
  for (const char* name :
       {"llama3", "gpt2", "qwen", "cl100k", "kimi", "tekken", "deepseek", "bert"})
    BOOST_TEST(cut_at_lines.contains(name), name);
  for (const char* name :
       {"llama3", "gpt2", "qwen", "cl100k", "kimi", "tekken", "nfd", "deepseek", "unigram", "bert"})
    BOOST_TEST(cut_at_words.contains(name), name);
}

BOOST_AUTO_TEST_CASE(invalid_parts_of_utf8_count_as_replacement_characters) {
  for (const json& golden : goldens()) {
    const auto tokenizer = open(golden["tokenizer"]);
    const Ids replaced = tokenizer->encode("a\xef\xbf\xbd\xef\xbf\xbd z\xef\xbf\xbd");
    BOOST_TEST(tokenizer->encode("a\xff\xe2\x82 z\xf0\x9f\x98") == replaced,
               boost::test_tools::per_element());
  }
}

BOOST_AUTO_TEST_CASE(tokens_are_known_by_name) {
  const auto tokenizer = open(small());
  BOOST_TEST(tokenizer->vocab_size() == 4);
  BOOST_TEST((tokenizer->id_of("<s>") == 3));
  BOOST_TEST((tokenizer->id_of("ab") == 2));
  BOOST_TEST(!tokenizer->id_of("ba"));
  BOOST_TEST(tokenizer->decode(Ids{3, 0, 2}) == "a ab");
  for (const std::int32_t id : {-1, 4})
    expect_error(ErrorKind::data, {"token id"}, [&] { tokenizer->decode(Ids{id}); });
}

BOOST_AUTO_TEST_CASE(what_is_not_supported_is_refused_by_file_and_part) {
  struct Case {
    std::string place;  ///< a JSON pointer
    json value;
    std::vector<std::string> words;
  };
  const json pair = json::array({"a", "b"});
  const std::vector<Case> cases = {
      {"/version", "2.0", {"version 2.0"}},
      {"/normalizer", {{"type", "Nmt"}}, {"normalizer: ", "Nmt", "Prepend"}},
      {"/normalizer", {{"type", "Precompiled"}}, {"Precompiled, a table of SentencePiece"}},
      {"/normalizer",
       {{"type", "Sequence"}, {"normalizers", {{{"type", "ByteLevel"}}}}},
       {"normalizer.normalizers[0]", "ByteLevel"}},
      {"/normalizer",
       {{"type", "Replace"}, {"pattern", {{"Regex", "\\w"}}}, {"content", "x"}},
       {"normalizer.pattern.Regex", "\\w"}},
      {"/normalizer",
       {{"type", "Replace"}, {"pattern", {{"Regex", "a"}}}, {"content", "$1"}},
       {"$"}},
      {"/normalizer",
       {{"type", "Replace"}, {"pattern", {{"String", ""}}}, {"content", "x"}},
       {"normalizer.pattern.String", "empty"}},
      {"/pre_tokenizer", {{"type", "UnicodeScripts"}}, {"pre_tokenizer: ", "UnicodeScripts"}},
      {"/pre_tokenizer", {{"type", "Metaspace"}, {"replacement", ""}}, {"replacement", "empty"}},
      {"/pre_tokenizer/prepend_scheme", "sometimes", {"sometimes", "first"}},
      {"/pre_tokenizer/add_prefix_space", false, {"add_prefix_space contradicts"}},
      {"/pre_tokenizer",
       {{"type", "Split"}, {"pattern", {{"String", "a"}}}, {"behavior", "Frob"}},
       {"pre_tokenizer.behavior", "Frob"}},
      {"/pre_tokenizer",
       {{"type", "Sequence"},
        {"pretokenizers", {{{"type", "ByteLevel"}}, {{"type", "ByteLevel"}}}}},
       {"pretokenizers[1]", "after ByteLevel"}},
      {"/post_processor", {{"type", "Other"}}, {"post_processor: ", "Other", "BertProcessing"}},
      {"/post_processor",
       {{"type", "BertProcessing"}, {"cls", {"[CLS]", 1}}, {"sep", {"[SEP]"}}},
       {"post_processor.sep", "its id"}},
      {"/decoder", {{"type", "BPEDecoder"}}, {"decoder: ", "BPEDecoder", "WordPiece"}},
      {"/model/type", "WordLevel", {"model: ", "WordLevel", "only BPE, Unigram, WordPiece"}},
      {"/model", {{"type", "Unigram"}, {"vocab", {{"a", 0}}}}, {"model.vocab", "list"}},
      {"/model", {{"type", "Unigram"}, {"vocab", json::array()}}, {"model.vocab", "no token"}},
      {"/model",
       {{"type", "Unigram"}, {"vocab", json::array({json::array({"a", "b"})})}},
       {"model.vocab", "token 0", "SCORE"}},
      {"/model",
       {{"type", "Unigram"},
        {"vocab", json::array({json::array({"a", 0}), json::array({"a", 1})})}},
       {"\"a\" comes twice"}},
      {"/model",
       {{"type", "Unigram"}, {"unk_id", 1}, {"vocab", json::array({json::array({"a", 0})})}},
       {"model.unk_id", "below 1"}},
      {"/model",
       {{"type", "WordPiece"}, {"vocab", {{"a", 0}}}},
       {"model", "\"unk_token\" is missing"}},
      {"/model",
       {{"type", "WordPiece"}, {"vocab", {{"a", 0}}}, {"unk_token", "[UNK]"}},
       {"model.unk_token", "[UNK]", "not in the vocabulary"}},
      {"/model/dropout", 0.1, {"model.dropout", "random"}},
      {"/model/end_of_word_suffix", "</w>", {"model.end_of_word_suffix", "</w>"}},
      {"/model/continuing_subword_prefix", "##", {"model.continuing_subword_prefix", "##"}},
      {"/model/unk_token", "<unk>", {"model.unk_token", "<unk>", "not in the vocabulary"}},
      {"/model/merges",
       json::array({json::array({"qqq", "a"})}),
       {"model.merges: merge 0", "qqq", "not in the vocabulary"}},
      {"/model/merges",
       json::array({pair, json::array({"b", "a"})}),
       {"merge 1", "\"ba\"", "not in the vocabulary"}},
      {"/model/merges", json::array({"a b c"}), {"merge 0", "a b c"}},
      {"/model/merges", json::array({json::array({"a", "b", "c"})}), {"merge 0", "LEFT"}},
      {"/model/merges", json::array({json::array({"", "a"})}), {"merge 0", "empty"}},
  };
  for (const Case& wrong : cases) {
    json content = small();
    content[json::json_pointer(wrong.place)] = wrong.value;
    std::vector<std::string> words = wrong.words;
    words.emplace_back("x.json: ");
    expect_error(ErrorKind::data, words, [&] { open(content); });
  }
  json bytes = small();
  bytes["pre_tokenizer"] = {{"type", "ByteLevel"}};
  bytes["model"] = {{"type", "Unigram"}, {"vocab", json::array({json::array({"a", 0})})}};
  expect_error(ErrorKind::data, {"Unigram", "ByteLevel"}, [&] { open(bytes); });
  json letters = small();
  letters["decoder"] = {{"type", "ByteLevel"}};
  expect_error(ErrorKind::data, {"x.json: ", "Metaspace makes no bytes"}, [&] { open(letters); });
  json both = small();
  both["normalizer"] = {{"type", "Prepend"}, {"prepend", "_"}};
  both["pre_tokenizer"]["prepend_scheme"] = "first";
  expect_error(ErrorKind::data, {"Prepend", "first"}, [&] { open(both); });
}

BOOST_AUTO_TEST_CASE(a_broken_file_is_refused_with_what_is_wrong) {
  const std::string sound = small().dump();
  const std::vector<std::pair<std::string, std::string>> files = {
      {"", "no JSON"},
      {sound.substr(0, sound.size() / 2), "no JSON"},
      {sound + "{}", "no JSON"},
      {"{\"model\": \"\xff\"}", "no JSON"},
      {"[1]", "must be an object"},
      {"{}", "\"model\" is missing"},
      {"{\"model\": null}", "\"model\" is missing"},
      {"{\"model\": 3}", "model: must be an object"},
      {"{\"model\": {}}", "\"vocab\" is missing"},
      {"{\"model\": {\"vocab\": {}, \"merges\": []}}", "has no token"},
      {"{\"model\": {\"vocab\": [], \"merges\": []}}", "model.vocab: must be an object"},
      {"{\"model\": {\"vocab\": {\"a\": 0}}}", "\"merges\" is missing"},
      {"{\"model\": {\"vocab\": {\"a\": 0}, \"merges\": {}}}", "model.merges: must be a list"},
      {"{\"model\": {\"vocab\": {\"a\": \"0\"}, \"merges\": []}}",
       "the id \"0\" of the token \"a\""},
      {"{\"model\": {\"vocab\": {\"a\": -1}, \"merges\": []}}", "the id -1"},
      {"{\"model\": {\"vocab\": {\"a\": 1.5}, \"merges\": []}}", "the id 1.5"},
      {"{\"model\": {\"vocab\": {\"a\": 4000000000}, \"merges\": []}}", "the id 4000000000"},
      {"{\"model\": {\"vocab\": {\"a\": 99999999999999999999}, \"merges\": []}}", "the id 1e+20"},
      {"{\"model\": {\"vocab\": {\"a\": 5, \"b\": 5}, \"merges\": []}}", "have the same id 5"},
      {std::string(100000, '['), "nests deeper"},
      {"{\"model\": " + std::string(1000, '[') + std::string(1000, ']') + "}", "nests deeper"},
  };
  for (const auto& [content, why] : files)
    expect_error(ErrorKind::data, {"x.json", why},
                 [&, c = content] { Tokenizer::open(dir.write("x.json", c)); });
  expect_error(ErrorKind::data, {"nowhere.json", "No such file"},
               [&] { Tokenizer::open((dir / "nowhere.json").string()); });
  const std::string large = dir.write("x.json", "{");
  std::filesystem::resize_file(large, std::uint64_t{1} << 40);
  expect_error(ErrorKind::data, {"x.json"}, [&] { Tokenizer::open(large); });
}

BOOST_AUTO_TEST_CASE(a_unigram_model_may_have_no_token_for_what_is_unknown) {
  json content = small();
  content["added_tokens"] = json::array();
  content["pre_tokenizer"] = nullptr;
  content["model"] = {{"type", "Unigram"},
                      {"vocab", json::array({json::array({"a", -1}), json::array({"ab", -1.5}),
                                             json::array({"b", -1})})}};
  const auto tokenizer = open(content);
  BOOST_TEST((tokenizer->encode("aabb") == Ids{0, 1, 2}));
  expect_error(ErrorKind::data, {"no token for \"c\""}, [&] { tokenizer->encode("abc"); });
}

/// The library reads the first score as the second: the sums are equal, and the longer token came
/// first. Read exactly, the first is less.
BOOST_AUTO_TEST_CASE(scores_of_a_unigram_model_are_those_that_the_library_reads) {
  json content = small();
  content["added_tokens"] = json::array();
  content["pre_tokenizer"] = nullptr;
  content["model"] = {
      {"type", "Unigram"},
      {"vocab", json::array({json::array({"ab", -18.524174936642922}),
                             json::array({"a", -18.52417493664292}), json::array({"b", 0.0})})}};
  BOOST_TEST((open(content)->encode("ab") == Ids{0}));
  content["model"]["vocab"][1][1] = -18.5241749366429;
  BOOST_TEST((open(content)->encode("ab") == Ids{1, 2}));
}

BOOST_AUTO_TEST_CASE(added_tokens_must_have_the_ids_that_the_library_gives_them) {
  const auto with = [](const std::vector<std::pair<int, std::string>>& tokens) {
    json content = small();
    content["added_tokens"] = json::array();
    for (const auto& [id, name] : tokens)
      content["added_tokens"].push_back({{"id", id}, {"content", name}});
    return content;
  };
  BOOST_TEST((open(with({{3, "x"}, {1, "b"}, {4, "y"}, {9, ""}}))->encode("yxb") == Ids{4, 3, 1}));
  const auto refused = [&](const std::vector<std::pair<int, std::string>>& tokens,
                           const std::string& why) {
    expect_error(ErrorKind::data, {"x.json: added_tokens[", why}, [&] { open(with(tokens)); });
  };
  refused({{4, "x"}}, "\"x\" has the id 4, but it must be 3");
  refused({{4, "x"}, {3, "y"}}, "must be 3");
  refused({{3, "x"}, {3, "y"}}, "must be 4");
  refused({{5, "a"}}, "must be 0: the model has that token");
  refused({{3, "x"}, {3, "x"}}, "added twice");
  refused({{-1, "x"}}, "below");
  json gap = with({{3, "x"}});
  gap["model"]["vocab"] = {{"a", 0}, {"b", 1}, {"ab", 3}};
  expect_error(ErrorKind::data, {"\"x\" and \"ab\" have the same id 3"}, [&] { open(gap); });
  json wrong = small();
  wrong["added_tokens"] = {{{"id", "3"}, {"content", "x"}}};
  expect_error(ErrorKind::data, {"added_tokens[0].id", "integer"}, [&] { open(wrong); });
  wrong["added_tokens"] = {{{"id", 3}, {"content", "x"}, {"lstrip", 1}}};
  expect_error(ErrorKind::data, {"added_tokens[0].lstrip", "true or false"}, [&] { open(wrong); });
  wrong["added_tokens"] = {{{"id", 3}}};
  expect_error(ErrorKind::data, {"added_tokens[0]", "\"content\" is missing"},
               [&] { open(wrong); });
}

BOOST_AUTO_TEST_CASE(a_template_is_read_or_refused) {
  const auto with = [](const json& single) {
    json content = small();
    content["post_processor"] = {
        {"type", "TemplateProcessing"},
        {"single", single},
        {"special_tokens", {{"<s>", {{"ids", {3, 0}}}}, {"far", {{"ids", {4}}}}}}};
    return content;
  };
  const auto token = [](const std::string& name) { return json{{"SpecialToken", {{"id", name}}}}; };
  const json text = {{"Sequence", {{"id", "A"}}}};
  const auto tokenizer = open(with(json::array({token("<s>"), text, token("<s>"), token("<s>")})));
  BOOST_TEST((tokenizer->frame().before == Ids{3, 0}));
  BOOST_TEST((tokenizer->frame().after == Ids{3, 0, 3, 0}));
  expect_error(ErrorKind::data, {"\"A\" is missing"},
               [&] { open(with(json::array({token("<s>")}))); });
  expect_error(ErrorKind::data, {"single[1]", "once"}, [&] {
    open(with(json::array({text, text})));
  });
  expect_error(ErrorKind::data, {"special_tokens", "</s>"}, [&] {
    open(with(json::array({text, token("</s>")})));
  });
  expect_error(ErrorKind::data, {"the id 4"}, [&] {
    open(with(json::array({text, token("far")})));
  });
  json two = small();
  const json one = with(json::array({text}))["post_processor"];
  two["post_processor"] = {{"type", "Sequence"}, {"processors", json::array({one, one})}};
  expect_error(ErrorKind::data, {"processors[1]", "second"}, [&] { open(two); });
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE_END()
