#include "stages/corpus/chat/chat_template.h"

#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>

#include "tests/support/expect_error.h"
#include "tests/support/temp_dir.h"

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(chat_template_test)

namespace {

using nlohmann::json;
using stages::ChatTemplate;
using stages::ChatText;

constexpr const char* kPlain =
    "{{ bos_token }}{% for m in messages %}[{{ m.role }}]{{ m.content }}{{ eos_token }}{% endfor "
    "%}{% if add_generation_prompt %}[assistant]{% endif %}";

json message(const char* role, const std::string& content) {
  return {{"role", role}, {"content", content}};
}

json with_weight(const std::string& content, double weight) {
  return {{"role", "assistant"}, {"content", content}, {"weight", weight}};
}

struct Model {
  ChatTemplate open() const { return ChatTemplate::of_tokenizer(dir / "tokenizer.json"); }
  void configure(const json& config) const { dir.write("tokenizer_config.json", config.dump()); }
  void refused(const std::vector<std::string>& words) const {
    expect_error(ErrorKind::data, words, [this] { open(); });
  }
  TempDir dir;
};

ChatTemplate with_template(const Model& model, const std::string& source) {
  model.configure({{"chat_template", source}, {"bos_token", "<s>"}, {"eos_token", "</s>"}});
  return model.open();
}

/// The parts of a text that the assistant says, and those that it reads.
std::vector<std::string> parts_of(const ChatText& chat) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  for (const std::size_t end : chat.ends) {
    parts.push_back(chat.text.substr(begin, end - begin));
    begin = end;
  }
  parts.push_back(chat.text.substr(begin));
  return parts;
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_template_and_its_tokens_are_found_as_transformers_finds_them) {
  const Model model;
  const json hello = json::array({message("user", "hi")});
  const std::string plain = "<s>[user]hi</s>";
  BOOST_TEST(with_template(model, kPlain).text_of(hello) == plain);
  model.configure(
      {{"chat_template",
        {{{"name", "other"}, {"template", "other"}}, {{"name", "default"}, {"template", kPlain}}}},
       {"bos_token", {{"content", "<s>"}, {"special", true}}},
       {"eos_token", nullptr}});
  BOOST_TEST(model.open().text_of(hello) == "<s>[user]hi");
  model.dir.write("special_tokens_map.json", R"({"eos_token": {"content": "</s>"}})");
  BOOST_TEST(model.open().text_of(hello) == plain);
  model.configure({{"bos_token", "<B>"}, {"eos_token", ""}, {"added_tokens_decoder", {}}});
  model.dir.write("chat_template.jinja", kPlain);
  BOOST_TEST(model.open().text_of(hello) == "<B>[user]hi");
  BOOST_TEST(stages::chat_template_file(model.dir / "tokenizer.json").has_value());
  BOOST_TEST(!stages::chat_template_file(model.dir / "tokenizer.model").has_value());
}

BOOST_AUTO_TEST_CASE(what_the_assistant_says_is_told_from_what_it_reads) {
  const Model model;
  const ChatTemplate plain = with_template(model, kPlain);
  const json chat{message("system", "s"), message("user", "u"), message("assistant", "a"),
                  message("user", "v"), message("assistant", "")};
  const ChatText text = plain.parts_of(chat);
  BOOST_TEST(text.text == plain.text_of(chat));
  BOOST_TEST(
      (parts_of(text) == std::vector<std::string>{"<s>[system]s</s>[user]u</s>[assistant]", "a</s>",
                                                  "[user]v</s>[assistant]", "</s>", ""}));
  BOOST_TEST((parts_of(plain.parts_of(json::array({message("user", "u")}))) ==
              std::vector<std::string>{"<s>[user]u</s>"}));
  const ChatTemplate marked = with_template(
      model,
      "{% for m in messages %}{{ m.role }}:{% if m.role == 'assistant' %}{% generation %}{{ "
      "m.content }}.{% endgeneration %}{% else %}{{ m.content }}{% endif %}\n\n{% endfor %}");
  BOOST_TEST((parts_of(marked.parts_of(chat)) ==
              std::vector<std::string>{"system:s\nuser:u\nassistant:", "a.",
                                       "\nuser:v\nassistant:", ".", "\n"}));
}

BOOST_AUTO_TEST_CASE(an_answer_of_weight_0_is_read) {
  const Model model;
  const json chat{message("user", "a"), with_weight("wrong", 0), message("user", "b"),
                  with_weight("right", 1)};
  using Parts = std::vector<std::string>;
  const Parts expected{"<s>[user]a</s>[assistant]wrong</s>[user]b</s>[assistant]", "right</s>", ""};
  BOOST_TEST((parts_of(with_template(model, kPlain).parts_of(chat)) == expected));
  const char* marked =
      "{% for m in messages %}{% if m.role == 'assistant' %}{% generation %}{{ m.content }}{% "
      "endgeneration %}{% else %}{{ m.content }}{% endif %}{% endfor %}";
  BOOST_TEST(
      (parts_of(with_template(model, marked).parts_of(chat)) == Parts{"awrongb", "right", ""}));
  const auto refused = [&](const std::vector<std::string>& words, const auto& use) {
    expect_error(ErrorKind::data, words, use);
  };
  refused({"\"weight\": 0", "loss_on"}, [&] { stages::check_all_weigh(chat); });
  stages::check_all_weigh(json{message("user", "a"), with_weight("b", 1)});
  refused({"message 1", "\"weight\" 0.5", "0 or 1"},
          [&] { model.open().parts_of(json::array({with_weight("b", 0.5)})); });
  const auto twice = with_template(
      model,
      "{% for m in messages %}{% generation %}{{ m.content }}{% endgeneration %}{% endfor %}");
  refused({"\"weight\": 0", "2 messages", "4 parts"}, [&] { twice.parts_of(chat); });
}

BOOST_AUTO_TEST_CASE(a_prompt_asks_for_the_next_answer) {
  const Model model;
  const auto chat = with_template(model, kPlain);
  BOOST_TEST(chat.prompt_of(json::array({message("user", "hi")})) == "<s>[user]hi</s>[assistant]");
}

BOOST_AUTO_TEST_CASE(members_that_are_null_are_not_there) {
  const Model model;
  const ChatTemplate names =
      with_template(model, "{% for m in messages %}{{ 'name' in m }}{{ m.name }}{% endfor %}");
  json named = message("user", ""), unnamed = named;
  named["name"] = "Ann";
  unnamed["name"] = nullptr;
  BOOST_TEST(names.text_of({named, unnamed}) == "TrueAnnFalse");
}

BOOST_AUTO_TEST_CASE(a_text_whose_begin_depends_on_its_end_has_no_parts) {
  const Model model;
  const json chat{message("user", "u"), message("assistant", "a"), message("user", "v")};
  for (const char* source :
       {"{{ messages | length }}{% for m in messages %}{{ m.content }}{% endfor %}",
        "{% for m in messages %}{{ m.content }}{% endfor %}{% if add_generation_prompt %}?{% endif "
        "%}"}) {
    const ChatTemplate whole = with_template(model, source);
    whole.text_of(chat);
    expect_error(ErrorKind::data, {"tokenizer_config.json: chat_template", "the first 1 messages"},
                 [&] { whole.parts_of(chat); });
  }
}

BOOST_AUTO_TEST_CASE(messages_of_another_form_are_refused) {
  const Model model;
  const ChatTemplate plain = with_template(model, kPlain);
  const auto refused = [&](const json& messages, const std::vector<std::string>& words) {
    expect_error(ErrorKind::data, words, [&] { plain.text_of(messages); });
    expect_error(ErrorKind::data, words, [&] { plain.parts_of(messages); });
  };
  for (const json& messages : {json(), json("text"), json::object(), json::array()})
    refused(messages, {"\"messages\" must be a list"});
  const json good = message("user", "u");
  refused({good, "text"}, {"message 2 is no object"});
  refused({good, {{"content", "c"}}}, {"message 2 has no string \"role\""});
  refused({good, {{"role", "user"}}}, {"message 2 has no string \"content\""});
  refused(json::array({{{"role", "user"}, {"content", nullptr}}}), {"message 1", "\"content\""});
  refused(json::array({{{"role", "user"}, {"content", json::array()}}}),
          {"message 1", "\"content\""});
  json thinking = good;
  thinking["reasoning_content"] = "r";
  refused(json::array({thinking}), {"message 1", "\"reasoning_content\""});
}

BOOST_AUTO_TEST_CASE(what_the_template_refuses_is_told_with_its_line) {
  const Model model;
  const ChatTemplate strict = with_template(
      model,
      "{% if messages[0].role != 'user' %}\n{{ raise_exception('no ' ~ messages[0].role) "
      "}}{% endif %}");
  strict.text_of(json::array({message("user", "u")}));
  expect_error(ErrorKind::data,
               {"tokenizer_config.json: chat_template: line 2", "refuses this: no wizard"},
               [&] { strict.text_of(json::array({message("wizard", "w")})); });
}

BOOST_AUTO_TEST_CASE(a_tokenizer_without_a_usable_template_is_refused) {
  const Model model;
  expect_error(ErrorKind::data, {"bytes", "tokenizer.json"},
               [] { ChatTemplate::of_tokenizer("bytes"); });
  model.refused({"tokenizer.json", "no chat template", "chat_template.jinja"});
  model.configure({{"chat_template", {{{"name", "tool_use"}, {"template", "x"}}}}});
  model.refused({"no chat template"});
  model.dir.write("tokenizer_config.json", "[");
  model.refused({"tokenizer_config.json: no JSON: line 1, column 2: syntax error"});
  model.configure({{"chat_template", "a\n{% macro f() %}{% endmacro %}"}});
  model.refused({"tokenizer_config.json: chat_template: line 2", "macro"});
  model.configure({{"chat_template", kPlain}, {"bos_token", 1}});
  model.refused({"tokenizer_config.json", "bos_token is no text"});
  // Another class has special tokens of its own that no file names.
  model.configure({{"chat_template", kPlain}, {"tokenizer_class", "LlamaTokenizer"}});
  const json hello = json::array({message("user", "hi")});
  expect_error(ErrorKind::data, {"line 1", "bos_token is missing"},
               [&] { model.open().text_of(hello); });
  model.configure({{"chat_template", kPlain}, {"tokenizer_class", "PreTrainedTokenizerFast"}});
  BOOST_TEST(model.open().text_of(hello) == "[user]hi");
  model.dir.write("chat_template.jinja", "\xff");
  model.refused({"chat_template.jinja", "UTF-8"});
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
