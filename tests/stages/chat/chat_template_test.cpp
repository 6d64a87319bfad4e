#include "stages/corpus/chat/chat_template.h"

#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>

#include "stages/corpus/chat/chat_date.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_dir.h"

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(chat_template_test)

namespace {

using json = nlohmann::ordered_json;
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
  BOOST_TEST(with_template(model, kPlain).text_of({hello}) == plain);
  model.configure(
      {{"chat_template",
        {{{"name", "other"}, {"template", "other"}}, {{"name", "default"}, {"template", kPlain}}}},
       {"bos_token", {{"content", "<s>"}, {"special", true}}},
       {"eos_token", nullptr}});
  BOOST_TEST(model.open().text_of({hello}) == "<s>[user]hi");
  model.dir.write("special_tokens_map.json", R"({"eos_token": {"content": "</s>"}})");
  BOOST_TEST(model.open().text_of({hello}) == plain);
  model.configure({{"bos_token", "<B>"}, {"eos_token", ""}, {"added_tokens_decoder", {}}});
  model.dir.write("chat_template.jinja", kPlain);
  BOOST_TEST(model.open().text_of({hello}) == "<B>[user]hi");
  BOOST_TEST(stages::chat_template_file(model.dir / "tokenizer.json").has_value());
  BOOST_TEST(!stages::chat_template_file(model.dir / "tokenizer.model").has_value());
}

BOOST_AUTO_TEST_CASE(what_the_assistant_says_is_told_from_what_it_reads) {
  const Model model;
  const ChatTemplate plain = with_template(model, kPlain);
  const json chat{message("system", "s"), message("user", "u"), message("assistant", "a"),
                  message("user", "v"), message("assistant", "")};
  const ChatText text = plain.parts_of({chat});
  BOOST_TEST(text.text == plain.text_of({chat}));
  BOOST_TEST(
      (parts_of(text) == std::vector<std::string>{"<s>[system]s</s>[user]u</s>[assistant]", "a</s>",
                                                  "[user]v</s>[assistant]", "</s>", ""}));
  BOOST_TEST((parts_of(plain.parts_of({json::array({message("user", "u")})})) ==
              std::vector<std::string>{"<s>[user]u</s>"}));
  const ChatTemplate marked = with_template(
      model,
      "{% for m in messages %}{{ m.role }}:{% if m.role == 'assistant' %}{% generation %}{{ "
      "m.content }}.{% endgeneration %}{% else %}{{ m.content }}{% endif %}\n\n{% endfor %}");
  BOOST_TEST((parts_of(marked.parts_of({chat})) ==
              std::vector<std::string>{"system:s\nuser:u\nassistant:", "a.",
                                       "\nuser:v\nassistant:", ".", "\n"}));
}

BOOST_AUTO_TEST_CASE(an_answer_of_weight_0_is_read) {
  const Model model;
  const json chat{message("user", "a"), with_weight("wrong", 0), message("user", "b"),
                  with_weight("right", 1)};
  using Parts = std::vector<std::string>;
  const Parts expected{"<s>[user]a</s>[assistant]wrong</s>[user]b</s>[assistant]", "right</s>", ""};
  BOOST_TEST((parts_of(with_template(model, kPlain).parts_of({chat})) == expected));
  const char* marked =
      "{% for m in messages %}{% if m.role == 'assistant' %}{% generation %}{{ m.content }}{% "
      "endgeneration %}{% else %}{{ m.content }}{% endif %}{% endfor %}";
  BOOST_TEST(
      (parts_of(with_template(model, marked).parts_of({chat})) == Parts{"awrongb", "right", ""}));
  const auto refused = [&](const std::vector<std::string>& words, const auto& use) {
    expect_error(ErrorKind::data, words, use);
  };
  refused({"\"weight\": 0", "loss_on"}, [&] { stages::check_all_weigh({chat}); });
  stages::check_all_weigh({json{message("user", "a"), with_weight("b", 1)}});
  refused({"message 1", "\"weight\" 0.5", "0 or 1"},
          [&] { model.open().parts_of({json::array({with_weight("b", 0.5)})}); });
  const auto twice = with_template(
      model,
      "{% for m in messages %}{% generation %}{{ m.content }}{% endgeneration %}{% endfor %}");
  refused({"\"weight\": 0", "2 messages", "4 parts"}, [&] { twice.parts_of({chat}); });
}

BOOST_AUTO_TEST_CASE(a_prompt_asks_for_the_next_answer) {
  const Model model;
  const auto chat = with_template(model, kPlain);
  BOOST_TEST(chat.prompt_of({json::array({message("user", "hi")})}) ==
             "<s>[user]hi</s>[assistant]");
}

BOOST_AUTO_TEST_CASE(members_that_are_null_are_not_there) {
  const Model model;
  const ChatTemplate names =
      with_template(model, "{% for m in messages %}{{ 'name' in m }}{{ m.name }}{% endfor %}");
  json named = message("user", ""), unnamed = named;
  named["name"] = "Ann";
  unnamed["name"] = nullptr;
  BOOST_TEST(names.text_of({json{named, unnamed}}) == "TrueAnnFalse");
}

BOOST_AUTO_TEST_CASE(answers_are_aligned_where_the_first_messages_are_not_the_begin_of_the_text) {
  const Model model;
  using Parts = std::vector<std::string>;
  const json chat{message("user", "u"), message("assistant", "a"), message("user", "v"),
                  message("assistant", "b")};
  const auto parts = [&](const char* source, const json& messages) {
    return parts_of(with_template(model, source).parts_of({messages}));
  };
  BOOST_TEST((parts("{{ messages | length }}{% for m in messages %}{{ m.content }}{% endfor %}",
                    chat) == Parts{"4u", "a", "v", "b", ""}));
  BOOST_TEST((parts("{% for m in messages %}{{ m.content }}{% endfor %}{% if add_generation_prompt "
                    "%}?{% endif %}",
                    chat) == Parts{"u", "a", "v", "b", ""}));
  // As DeepSeek's: thoughts are cut off from each answer, and begun by the prompt.
  const json thoughts{message("user", "u"), message("assistant", "<think>\nhm\n</think>\n\nyes"),
                      message("user", "v"), message("assistant", "<think>\nso\n</think>\n\nno")};
  BOOST_TEST((parts("{% for m in messages %}{% if m.role == 'user' %}<U>{{ m.content }}{% else "
                    "%}<A>{{ m.content.split('</think>')[-1] }}<E>{% endif %}{% endfor %}{% if "
                    "add_generation_prompt %}<A><think>\n{% endif %}",
                    thoughts) == Parts{"<U>u<A>", "\n\nyes<E>", "<U>v<A>", "\n\nno<E>", ""}));
}

/// As Qwen3's, which keeps the thoughts behind the last user's message alone.
BOOST_AUTO_TEST_CASE(thoughts_that_a_later_question_removes_are_not_said) {
  const Model model;
  const ChatTemplate last = with_template(
      model,
      "{%- set ns = namespace(last=-1) -%}{%- for m in messages -%}{%- if m.role == 'user' -%}{%- "
      "set ns.last = loop.index0 -%}{%- endif -%}{%- endfor -%}\n"
      "{%- for m in messages -%}{{ '<' + m.role + '>\n' }}{%- set text = m.content -%}\n"
      "{%- if m.role == 'assistant' -%}\n"
      "{%- set thought = m.reasoning_content if m.reasoning_content is string else '' -%}\n"
      "{%- if '</think>' in text -%}{%- set thought = "
      "text.split('</think>')[0].split('<think>')[-1]"
      ".strip('\n') -%}{%- set text = text.split('</think>')[-1].lstrip('\n') -%}{%- endif -%}\n"
      "{%- if loop.index0 > ns.last and (loop.last or thought) -%}{{ '<think>\n' + thought + "
      "'\n</think>\n\n' }}{%- endif -%}{%- endif -%}\n"
      "{{ text + '<end>\n' }}{%- endfor -%}\n"
      "{%- if add_generation_prompt -%}{{ '<assistant>\n' }}{%- endif -%}");
  using Parts = std::vector<std::string>;
  json answer = message("assistant", "four");
  answer["reasoning_content"] = "2+2";
  const json chat{message("user", "a"), answer, message("user", "b"), answer};
  BOOST_TEST((parts_of(last.parts_of({chat})) ==
              Parts{"<user>\na<end>\n<assistant>\n", "four<end>\n", "<user>\nb<end>\n<assistant>\n",
                    "<think>\n2+2\n</think>\n\nfour<end>\n", ""}));
  const json in_text{message("user", "a"), message("assistant", "<think>x</think>four"),
                     message("user", "b"), message("assistant", "five")};
  BOOST_TEST((parts_of(last.parts_of({in_text})) ==
              Parts{"<user>\na<end>\n<assistant>\n", "four<end>\n", "<user>\nb<end>\n<assistant>\n",
                    "<think>\n\n</think>\n\nfive<end>\n", ""}));
}

BOOST_AUTO_TEST_CASE(answers_that_cannot_be_aligned_are_refused) {
  const Model model;
  const json chat{message("user", "u"), message("assistant", "a"), message("user", "v"),
                  message("assistant", "b")};
  const auto refused = [&](const char* source, const std::vector<std::string>& words) {
    expect_error(ErrorKind::data, words, [&] { with_template(model, source).parts_of({chat}); });
  };
  refused("{{ messages | length }}{{ messages | map(attribute='role') | join }}",
          {"tokenizer_config.json: chat_template", "does not show the content of message 2"});
  refused(
      "{{ messages | length }}{{ messages | map(attribute='content') | join }}{{ messages | "
      "map(attribute='content') | join }}",
      {"overlaps"});
}

BOOST_AUTO_TEST_CASE(contents_may_be_parts_or_null) {
  const Model model;
  const json part{{"type", "text"}, {"text", "b"}};
  json parts = message("user", "");
  parts["content"] = json::array({{{"type", "text"}, {"text", "a"}}, part});
  const auto text = [&](const char* source, const json& messages) {
    return with_template(model, source).text_of({messages});
  };
  BOOST_TEST(text(kPlain, json::array({parts})) == "<s>[user]ab</s>");
  BOOST_TEST(text("{% for m in messages %}{{ '<' + m.content.strip() + '>' }}{% endfor %}",
                  json::array({parts})) == "<ab>");
  BOOST_TEST(text("{% for m in messages %}{% for p in m.content %}{{ p.text }};{% endfor %}{% "
                  "endfor %}",
                  json::array({parts})) == "a;b;");
  const json call{{"role", "assistant"},
                  {"content", nullptr},
                  {"tool_calls", {{{"function", {{"name", "f"}, {"arguments", {{"x", 1}}}}}}}}};
  BOOST_TEST(text("{% for m in messages %}{{ m.content is defined }}{% for c in m.tool_calls %}{{ "
                  "c.function.name }}{{ c.function.arguments | tojson }}{% endfor %}{% endfor %}",
                  json::array({call})) == "Falsef{\"x\": 1}");
  json picture = parts;
  picture["content"] = json::array({{{"type", "image_url"}, {"image_url", "x"}}});
  expect_error(ErrorKind::data, {"message 1", "image_url", "only text"},
               [&] { text(kPlain, json::array({picture})); });
}

BOOST_AUTO_TEST_CASE(reasoning_has_all_the_names_that_templates_read) {
  const Model model;
  for (const char* name : {"reasoning_content", "thinking", "reasoning"}) {
    json answer = message("assistant", "a");
    answer[name] = "r";
    BOOST_TEST(with_template(model,
                             "{% for m in messages %}{{ m.reasoning_content }}{{ m.thinking }}{% "
                             "endfor %}")
                   .text_of({json::array({answer})}) == "rr");
  }
}

BOOST_AUTO_TEST_CASE(a_template_is_told_tools_and_variables_and_the_day) {
  const Model model;
  model.configure({{"chat_template",
                    "{{ tools | tojson }}{{ documents }}{{ enable_thinking }}{{ "
                    "strftime_now('%d %b %Y') }}"}});
  const json hello = json::array({message("user", "hi")});
  const std::string tokenizer = model.dir / "tokenizer.json";
  const auto dated = ChatTemplate::of_tokenizer(tokenizer, "2024-07-26");
  BOOST_TEST(dated.text_of({.messages = hello,
                            .tools = json::array({{{"z", 1}, {"a", 2}}}),
                            .documents = nullptr,
                            .variables = {{"enable_thinking", false}}}) ==
             "[{\"z\": 1, \"a\": 2}]NoneFalse26 Jul 2024");
  BOOST_TEST(stages::chat_template_reads_date(tokenizer));
  for (const char* date : {"2024-02-30", "26 July", "2024-07-26x", "24-7-26"})
    expect_error(ErrorKind::data, {date, "2024-07-26"},
                 [&] { ChatTemplate::of_tokenizer(tokenizer, date); });
  BOOST_TEST(stages::today().size() == 10u);
  with_template(model, kPlain);
  BOOST_TEST(!stages::chat_template_reads_date(tokenizer));
}

BOOST_AUTO_TEST_CASE(messages_of_another_form_are_refused) {
  const Model model;
  const ChatTemplate plain = with_template(model, kPlain);
  const auto refused = [&](const json& messages, const std::vector<std::string>& words) {
    expect_error(ErrorKind::data, words, [&] { plain.text_of({messages}); });
    expect_error(ErrorKind::data, words, [&] { plain.parts_of({messages}); });
  };
  for (const json& messages : {json(), json("text"), json::object(), json::array()})
    refused(messages, {"\"messages\" must be a list"});
  const json good = message("user", "u");
  refused({good, "text"}, {"message 2 is no object"});
  refused({good, {{"content", "c"}}}, {"message 2 has no string \"role\""});
  refused({good, {{"role", "user"}}}, {"message 2 has no \"content\""});
  refused(json::array({{{"role", "user"}, {"content", nullptr}}}), {"message 1", "\"content\""});
  refused(json::array({{{"role", "user"}, {"content", json::array()}}}),
          {"message 1", "\"content\""});
  refused(json::array({{{"role", "user"}, {"content", json::array({"x"})}}}),
          {"message 1", "\"text\""});
}

BOOST_AUTO_TEST_CASE(what_the_template_refuses_is_told_with_its_line) {
  const Model model;
  const ChatTemplate strict = with_template(
      model,
      "{% if messages[0].role != 'user' %}\n{{ raise_exception('no ' ~ messages[0].role) "
      "}}{% endif %}");
  strict.text_of({json::array({message("user", "u")})});
  expect_error(ErrorKind::data,
               {"tokenizer_config.json: chat_template: line 2", "refuses this: no wizard"},
               [&] { strict.text_of({json::array({message("wizard", "w")})}); });
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
  model.configure({{"chat_template", "a\n{% include 'x' %}"}});
  model.refused({"tokenizer_config.json: chat_template: line 2", "include"});
  model.configure({{"chat_template", kPlain}, {"bos_token", 1}});
  model.refused({"tokenizer_config.json", "bos_token is no text"});
  // Another class has special tokens of its own that no file names.
  model.configure({{"chat_template", kPlain}, {"tokenizer_class", "LlamaTokenizer"}});
  const json hello = json::array({message("user", "hi")});
  expect_error(ErrorKind::data, {"line 1", "bos_token is missing"},
               [&] { model.open().text_of({hello}); });
  model.configure({{"chat_template", kPlain}, {"tokenizer_class", "PreTrainedTokenizerFast"}});
  BOOST_TEST(model.open().text_of({hello}) == "[user]hi");
  model.dir.write("chat_template.jinja", "\xff");
  model.refused({"chat_template.jinja", "UTF-8"});
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
