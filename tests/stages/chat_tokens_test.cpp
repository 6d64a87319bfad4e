#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "stages/corpus/samples/data_feed.h"
#include "stages/corpus/tokenizers/tokenizer.h"
#include "stages/corpus/tokens/token_cache.h"
#include "stages/corpus/tokens/token_file.h"
#include "stages/corpus/tokens/token_scan.h"
#include "stages/files/hugging_face/hf_tokenizer.h"
#include "tests/stages/tokens_of_file.h"
#include "tests/support/expect_error.h"
#include "tests/support/sentencepiece_model.h"
#include "tests/support/temp_dir.h"

// Tests of the token cache on lines that hold prompts with responses, or conversations.

BOOST_AUTO_TEST_SUITE(chat_tokens_test)

using namespace troupe;
using namespace troupe::stages;
using nlohmann::json;
using test::expect_error;
using test::text_of;
using test::tokens_of;

namespace {

struct Fixture {
  test::TempDir dir;
  std::string cache = (dir / "cache").string();
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(chat_tokens, Fixture)

BOOST_AUTO_TEST_CASE(a_cache_that_is_cut_while_it_is_open_is_an_error_and_no_signal) {
  const std::string lines =
      dir.write("chat.jsonl", "{\"prompt\": \"2+2=\", \"response\": \"4\"}\n");
  const std::string path = prepare_tokens({.files = {lines}, .loss_on = LossOn::response}, cache);
  for (const Documents documents : {Documents::joined, Documents::padded}) {
    const DataFeed feed(TokenFile::open(path),
                        {.documents = documents, .seq_len = 4, .vocab_size = 256});
    const Sample sample = feed.sample(0, 0);
    std::vector<std::int32_t> ids(static_cast<std::size_t>(sample.targets)), targets = ids;
    feed.read(sample, ids, targets);
    const std::string whole = test::content_of(path);
    std::filesystem::resize_file(path, 10);  // the ids are left
    expect_error(ErrorKind::data, {path, "cut while it was in use"},
                 [&] { feed.read(sample, ids, targets); });
    if (documents != Documents::joined)
      expect_error(ErrorKind::data, {path}, [&] { feed.sample(0, 0); });
    std::ofstream(path) << whole;
  }
}

BOOST_AUTO_TEST_CASE(a_cache_knows_where_prompts_end) {
  const std::string lines = dir.write("chat.jsonl",
                                      "{\"prompt\": \"2+2=\", \"response\": \"4\"}\n\n"
                                      "{\"response\": \"no question\", \"prompt\": \"\"}\n"
                                      "{\"prompt\": \"no answer\", \"response\": \"\"}\n");
  const std::string path = prepare_tokens({.files = {lines}, .loss_on = LossOn::response}, cache);
  BOOST_TEST(text_of(path) == "2+2=4no questionno answer");
  const auto file = TokenFile::open(path);
  BOOST_REQUIRE(file->num_documents() == 3);
  BOOST_TEST(file->document_begin(1) == 5);
  BOOST_REQUIRE(file->num_masked() == 2);
  BOOST_TEST((file->masked(0) == TokenSpan{0, 4}));
  BOOST_TEST((file->masked(1) == TokenSpan{16, 25}));
  const auto all = TokenFile::open(prepare_tokens({.files = {lines}}, cache));
  BOOST_TEST(all->name() != file->name());
  BOOST_TEST(text_of(all->name()) == "2+2=4no questionno answer");
  BOOST_TEST(all->num_masked() == 0);
  BOOST_TEST(scan_tokens(*all, 256) != scan_tokens(*file, 256));
}

BOOST_AUTO_TEST_CASE(a_prompt_has_the_ids_of_a_text_and_a_response_goes_on_behind_it) {
  const auto model = dir.write("spm.model", test::sentencepiece_model());
  const auto tokenizer = Tokenizer::open(model);
  const std::string prompt = "What is the answer?\nTell me", response = " The answer.\nIt is it";
  const std::string lines =
      dir.write("a.jsonl",
                "{\"prompt\": \"What is the answer?\\nTell me\", \"response\": \" The "
                "answer.\\nIt is it\"}\n");
  const std::string path =
      prepare_tokens({.files = {lines}, .tokenizer = model, .loss_on = LossOn::response}, cache);
  auto expected = tokenizer->encode(prompt);
  const auto length = std::ssize(expected);
  for (const std::int32_t id : tokenizer->encode(response, Place::after_newline))
    expected.push_back(id);
  BOOST_TEST(tokens_of(path) == expected, boost::test_tools::per_element());
  BOOST_TEST((TokenFile::open(path)->masked(0) == TokenSpan{0, length}));
}

BOOST_AUTO_TEST_CASE(training_sees_of_a_prompt_what_generation_sends) {
  const std::string tokenizer = dir.write("tok.json", R"({"added_tokens": [
    {"id": 2, "content": "<s>", "special": true}, {"id": 3, "content": "</s>", "special": true}],
    "post_processor": {"type": "TemplateProcessing", "single": [
      {"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}, {"SpecialToken": {"id": "</s>"}}],
      "special_tokens": {"<s>": {"ids": [2]}, "</s>": {"ids": [3]}}},
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": []}})");
  using Ids = std::vector<std::int32_t>;
  const auto ids_of = [&](const std::string& line, LossOn loss_on, Documents documents) {
    const std::string lines = dir.write("a.jsonl", line + "\n" + line + "\n");
    return tokens_of(prepare_tokens(
        {.files = {lines}, .tokenizer = tokenizer, .loss_on = loss_on, .documents = documents},
        cache));
  };
  const auto opened = Tokenizer::open(tokenizer);
  const auto prompt = opened->encode_prompt("ab", opened->frame().before);
  BOOST_TEST((prompt == Ids{2, 0, 1}));
  const char* pair = R"({"prompt": "ab", "response": "b"})";
  const Ids framed{2, 0, 1, 1, 3, 2, 0, 1, 1, 3};
  for (const Documents documents : {Documents::packed, Documents::padded, Documents::joined})
    BOOST_TEST((ids_of(pair, LossOn::all, documents) == framed));
  BOOST_TEST((ids_of(pair, LossOn::response, Documents::packed) == framed));
  const auto file = TokenFile::open(prepare_tokens({.files = {(dir / "a.jsonl").string()},
                                                    .tokenizer = tokenizer,
                                                    .loss_on = LossOn::response,
                                                    .documents = Documents::packed},
                                                   cache));
  BOOST_TEST((file->masked(0) == TokenSpan{0, 3}));
  const char* text = R"({"text": "ab"})";
  BOOST_TEST((ids_of(text, LossOn::all, Documents::packed) == Ids{2, 0, 1, 3, 2, 0, 1, 3}));
  BOOST_TEST((ids_of(text, LossOn::all, Documents::joined) == Ids{0, 1, 0, 1}));
}

BOOST_AUTO_TEST_CASE(conversations_are_kept_from_training_but_for_the_assistant) {
  json tokens = json::array();
  for (const char* token : {"<user>", "<assistant>", "<end>"})
    tokens.push_back({{"content", token}, {"id", 256 + tokens.size()}, {"special", true}});
  json tokenizer = json::parse(hf_tokenizer_files("bytes").at("tokenizer.json"));
  tokenizer["added_tokens"] = tokens;
  const std::string path = dir.write("tokenizer.json", tokenizer.dump());
  const auto use_template = [&](const std::string& source) {
    dir.write("tokenizer_config.json", json{{"chat_template", source}}.dump());
  };
  use_template(
      "{% for m in messages %}{{ '<' + m.role + '>' + m.content + '<end>' }}{% endfor %}{% if "
      "add_generation_prompt %}{{ '<assistant>' }}{% endif %}");
  const auto chat = [](const std::vector<std::pair<std::string, std::string>>& messages) {
    json list = json::array();
    for (const auto& [role, content] : messages)
      list.push_back({{"role", role}, {"content", content}});
    return json{{"messages", list}}.dump() + "\n";
  };
  const std::string lines = dir.write(
      "chat.jsonl", chat({{"user", "ab"}, {"assistant", "c"}, {"user", "d"}, {"assistant", ""}}) +
                        "{\"prompt\": \"xy\", \"response\": \"z\"}\n" +
                        chat({{"assistant", "a"}, {"user", ""}}));
  const auto prepared = [&](LossOn loss_on) {
    return prepare_tokens({.files = {lines}, .tokenizer = path, .loss_on = loss_on}, cache);
  };
  const std::string response = prepared(LossOn::response);
  const std::vector<std::int32_t> expected{256, 'a', 'b', 258, 257, 'c', 258, 256, 'd', 258,
                                           257, 258, 'x', 'y', 'z', 257, 'a', 258, 256, 258};
  BOOST_TEST(tokens_of(response) == expected, boost::test_tools::per_element());
  const auto file = TokenFile::open(response);
  BOOST_TEST(file->num_documents() == 3);
  std::vector<TokenSpan> masked;
  for (std::int64_t i = 0; i < file->num_masked(); ++i) masked.push_back(file->masked(i));
  BOOST_TEST((masked == std::vector<TokenSpan>{{0, 5}, {7, 11}, {12, 14}, {15, 16}, {18, 20}}));
  const auto all = TokenFile::open(prepared(LossOn::all));
  BOOST_TEST(tokens_of(all->name()) == expected, boost::test_tools::per_element());
  BOOST_TEST(all->num_masked() == 0);
  use_template("{% for m in messages %}{{ m.content }}{% endfor %}");
  BOOST_TEST(prepared(LossOn::response) != response);
  use_template("{{ messages | length }}");
  prepared(LossOn::all);
  expect_error(ErrorKind::data,
               {"chat.jsonl:1: ", "tokenizer_config.json", "the content of message 2"},
               [&] { prepared(LossOn::response); });
  use_template("{{ messages | groupby('role') }}");
  expect_error(ErrorKind::data, {"chat.jsonl:1: ", "line 1: the filter groupby is not"},
               [&] { prepared(LossOn::all); });
}

BOOST_AUTO_TEST_CASE(lines_without_what_the_loss_is_on_are_named) {
  const auto refused = [&](const std::string& line, LossOn loss_on,
                           const std::vector<std::string>& words) {
    const std::string file =
        dir.write("bad.jsonl", "{\"prompt\": \"p\", \"response\": \"r\"}\n" + line + "\n");
    auto all = words;
    all.push_back("bad.jsonl:2:");
    expect_error(ErrorKind::data, all,
                 [&] { prepare_tokens({.files = {file}, .loss_on = loss_on}, cache); });
  };
  refused("{\"prompt\": \"p\"}", LossOn::all, {"\"text\"", "\"prompt\" and \"response\""});
  refused("{\"prompt\": \"p\"}", LossOn::response, {"\"prompt\" and \"response\""});
  refused("{\"text\": \"t\"}", LossOn::response, {"\"prompt\" and \"response\""});
  refused("{\"prompt\": 1, \"response\": \"r\"}", LossOn::response, {"strings"});
  refused("[]", LossOn::response, {"JSON object"});
  refused("{\"messages\": []}", LossOn::response, {"\"messages\" need the chat template"});
  refused("{\"messages\": []}", LossOn::all, {"\"messages\" need the chat template"});
  refused("{\"text\": \"cut of", LossOn::all, {"no JSON: column 17", "missing closing quote"});
  for (const LossOn loss_on : {LossOn::all, LossOn::response})
    refused("{\"prompt\": \"p\", \"response\": \"r\", \"weight\": 0.5}", loss_on,
            {"\"weight\" 0.5", "only an object of \"messages\""});
  refused("{\"messages\": [], \"weight\": 0}", LossOn::response, {"\"weight\" 0"});
  const std::string text = dir.write("text.txt", "text");
  expect_error(ErrorKind::data, {"text.txt", "\"prompt\""},
               [&] { prepare_tokens({.files = {text}, .loss_on = LossOn::response}, cache); });
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE_END()
