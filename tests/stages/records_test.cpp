#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>

#include "stages/corpus/text/corpus_count.h"
#include "stages/corpus/text/marks.h"
#include "stages/corpus/text/record.h"
#include "stages/corpus/tokens/token_cache.h"
#include "tests/stages/tokens_of_file.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_dir.h"

// What objects of JSON hold, and how files of them are read.

BOOST_AUTO_TEST_SUITE(records_test)

using namespace troupe;
using namespace troupe::stages;
using json = nlohmann::ordered_json;
using test::expect_error;
using test::text_of;

namespace {

Record record(const char* line, LossOn loss_on = LossOn::response, const TextRules& rules = {}) {
  return record_of(json::parse(line), loss_on, rules);
}

/// The roles and contents of a conversation.
std::string talk_of(const Record& given) {
  std::string text;
  for (const json& message : std::get<Conversation>(given.content).messages)
    text += message["role"].get<std::string>() + ":" +
            (message["content"].is_string() ? message["content"].get<std::string>() : "-") + ";";
  return text;
}

void refused(const char* line, const std::vector<std::string>& words,
             LossOn loss_on = LossOn::response, const TextRules& rules = {}) {
  expect_error(ErrorKind::data, words, [&] { record(line, loss_on, rules); });
}

struct Files {
  test::TempDir dir;

  std::string prepared(const std::vector<std::string>& files, const TextRules& rules = {}) const {
    return prepare_tokens({.files = files, .rules = rules}, dir / "cache");
  }
};

const std::string kLine = "{\"text\": \"one\"}\n", kOther = "{\"text\": \"two\"}\n";

}  // namespace

BOOST_AUTO_TEST_CASE(the_members_of_an_object_say_what_it_is) {
  BOOST_TEST(std::get<std::string>(record(R"({"text": "a"})", LossOn::all).content) == "a");
  BOOST_TEST(std::get<std::string>(record(R"({"content": "a"})", LossOn::all).content) == "a");
  for (const char* line : {R"({"prompt": "p", "response": "r"})",
                           R"({"completion": "r", "prompt": "p", "response": null})"}) {
    const Record one = record(line);
    BOOST_TEST(std::get<PromptedText>(one.content).prompt == "p");
    BOOST_TEST(std::get<PromptedText>(one.content).response == "r");
  }
  BOOST_TEST(talk_of(record(R"({"instruction": "q", "input": "i", "output": "a"})")) ==
             "user:q\ni;assistant:a;");
  BOOST_TEST(talk_of(record(R"({"instruction": "q", "input": "", "output": "a", "system": "s",
                                "history": [["x", "y"]]})")) ==
             "system:s;user:x;assistant:y;user:q;assistant:a;");
  BOOST_TEST(talk_of(record(R"({"instruction": "q", "context": null, "response": "a",
                                "category": "qa"})")) == "user:q;assistant:a;");
  BOOST_TEST(talk_of(record(R"({"system": "s", "conversations": [{"from": "human", "value": "q"},
          {"from": "gpt", "value": "a"}, {"from": "tool", "value": "t"}]})")) ==
             "system:s;user:q;assistant:a;tool:t;");
  const Record call = record(R"({"conversations": [{"from": "user", "value": "q"},
      {"from": "function_call", "value": "{\"name\": \"f\", \"arguments\": {}}"}],
      "tools": "[{\"name\": \"f\"}]", "chat_template_kwargs": {"x": 1}})");
  BOOST_TEST(talk_of(call) == "user:q;assistant:-;");
  const auto& conversation = std::get<Conversation>(call.content);
  BOOST_TEST(conversation.messages[1]["tool_calls"][0]["function"]["name"] == "f");
  BOOST_TEST(conversation.tools[0]["name"] == "f");
  BOOST_TEST(conversation.variables["x"] == 1);
  const Record both = record(R"({"prompt": [{"role": "assistant", "content": "a"}],
                                 "completion": [{"role": "assistant", "content": "b"}]})");
  BOOST_TEST(talk_of(both) == "assistant:a;assistant:b;");
  BOOST_TEST(std::get<Conversation>(both.content).messages[0]["weight"] == 0);
}

BOOST_AUTO_TEST_CASE(fields_name_the_members_of_others) {
  const TextRules pair{.fields = {{"prompt", "q"}, {"response", "a"}}};
  const Record one = record(R"({"q": "p", "a": "r", "text": "no"})", LossOn::all, pair);
  BOOST_TEST(std::get<PromptedText>(one.content).prompt == "p");
  refused(R"({"q": "p"})", {"no \"a\"", "data.fields names as response"}, LossOn::all, pair);
  const TextRules asked{.fields = {{"instruction", "q"}, {"output", "a"}, {"input", "about"}}};
  BOOST_TEST(talk_of(record(R"({"q": "p", "a": "r"})", LossOn::response, asked)) ==
             "user:p;assistant:r;");
}

BOOST_AUTO_TEST_CASE(what_is_no_record_is_told) {
  refused(R"({"foo": 1, "bar": 2})", {"its members are \"foo\", \"bar\"", "data.fields"});
  refused(R"({"text": "a"})", {"\"prompt\" and \"response\"", "its members are \"text\""});
  refused(R"([1])", {"expected a JSON object"});
  refused(R"({"prompt": "p", "chosen": "a", "rejected": "b"})", {"preference set"});
  refused(R"({"messages": [], "images": ["x"]})", {"\"images\"", "only text"});
  refused(R"({"conversations": [{"from": "alien", "value": "q"}]})", {"message 1", "\"alien\""});
  refused(R"({"messages": [], "tools": 1})", {"\"tools\" is no list"});
  refused(R"({"instruction": "q", "input": 1, "output": "a"})", {"\"input\" is no string"});
}

BOOST_FIXTURE_TEST_CASE(lists_and_packed_files_are_read_as_lines_are, Files) {
  const std::string expected = "onetwo";
  for (const auto& [name, content] :
       {std::pair<std::string, std::string>{"a.jsonl", kLine + "\n" + kOther},
        {"b.json", kLine + kOther},
        {"c.json", "[" + kLine + ",\n\n " + kOther + "]\n"},
        {"d.json",
         "\xef\xbb\xbf[{\"text\":\n\"one\", \"x\": [\"]\", {\"\\\"\": 1}]}," + kOther + "]"},
        {"e.ndjson", kLine + kOther}})
    BOOST_TEST(text_of(prepared({dir.write(name, content)})) == expected, name);
  const auto broken = [&](const std::string& content, const std::vector<std::string>& words) {
    const std::string file = dir.write("broken.json", content);
    expect_error(ErrorKind::data, words, [&] { prepared({file}); });
  };
  broken("[" + kLine + "," + kOther, {"broken.json:3: ends before its list"});
  broken("[" + kLine + "] " + kOther, {"broken.json:2: holds more behind its list"});
  broken("[" + kLine + ",\n{\"txt\": 1}]", {"broken.json:3: ", "\"txt\""});
  broken("[" + kLine + ",]", {"broken.json:2: no JSON"});
}

BOOST_FIXTURE_TEST_CASE(bad_lines_are_skipped_and_counted_where_that_is_asked_for, Files) {
  const std::string file =
      dir.write("a.jsonl", kLine + "{\"text\": \n" + "{\"txt\": 1}\n" + kOther);
  expect_error(ErrorKind::data, {"a.jsonl:2: no JSON: column 10"}, [&] { prepared({file}); });
  const std::string tokens = prepared({file}, {.on_bad_line = BadLines::skip});
  BOOST_TEST(text_of(tokens) == "onetwo");
  BOOST_TEST(token_notes(tokens).starts_with("2 lines are skipped, the first: " + file +
                                             ":2: no JSON: column 10"));
  const auto count = count_corpus({file}, LossOn::all, Documents::packed,
                                  {.on_bad_line = BadLines::skip}, *Tokenizer::open("bytes"));
  BOOST_TEST(count.documents == 2);
  BOOST_TEST(count.reading.skipped == 2);
  // What is wrong with a template is no fault of the line.
  const std::string chat = dir.write("b.jsonl", "{\"messages\": []}\n");
  expect_error(ErrorKind::data, {"b.jsonl:1: ", "chat template"},
               [&] { prepared({chat}, {.on_bad_line = BadLines::skip}); });
}

BOOST_FIXTURE_TEST_CASE(what_was_found_is_kept_with_the_tokens, Files) {
  const std::string pairs = dir.write("a.jsonl", "{\"prompt\": \"p\", \"completion\": \"c\"}\n");
  BOOST_TEST(token_notes(prepared({pairs})) == "1 record is read as prompt and completion\n");
  BOOST_TEST(token_notes(prepared({dir.write("b.jsonl", kLine)})) == "");
  const std::string named = dir.write("c.jsonl", "{\"a\": \"x\", \"b\": \"y\"}\n");
  const auto text = [&](const char* a, const char* b) {
    return text_of(prepared({named}, {.fields = {{"prompt", a}, {"response", b}}}));
  };
  BOOST_TEST(text("a", "b") == "xy");
  BOOST_TEST(text("b", "a") == "yx");  // the fields are part of the cache's key
}

BOOST_FIXTURE_TEST_CASE(marks_that_are_named_are_around_joined_texts_too, Files) {
  const std::string file = dir.write("a.jsonl", kLine + kOther);
  BOOST_TEST(text_of(prepared({file})) == "onetwo");
  BOOST_TEST(text_of(prepared({file}, {.bos = "<", .end_of_document = ">"})) == "<one><two>");
  BOOST_TEST(text_of(prepared({file}, {.end_of_document = "."})) == "one.two.");
  expect_error(ErrorKind::data, {"bos = \"<s>\"", "bytes has no such token", "\"none\""},
               [&] { prepared({file}, {.bos = "<s>"}); });
}

BOOST_AUTO_TEST_SUITE_END()
