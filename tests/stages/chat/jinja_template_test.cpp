#include "stages/corpus/chat/jinja/jinja_template.h"

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "stages/corpus/chat/chat_date.h"
#include "tests/support/expect_error.h"

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(jinja_template_test)

namespace {

using json = nlohmann::ordered_json;
using stages::JinjaOutput;
using stages::JinjaTemplate;
using stages::JinjaValue;
using stages::JinjaVariables;

/// Templates, and what transformers makes with them; make_golden.py wrote it.
json golden() {
  std::ifstream file(std::filesystem::path(__FILE__).parent_path() / "golden.json");
  return json::parse(file);
}

JinjaVariables variables_of(const json& tokens, const json& messages, bool prompt) {
  JinjaVariables variables;
  for (const auto& [name, value] : tokens.items()) variables.values[name] = JinjaValue::of(value);
  variables.values["tools"] = variables.values["documents"] = nullptr;
  variables.values["messages"] = JinjaValue::of(messages);
  variables.values["add_generation_prompt"] = prompt;
  variables.now = stages::begin_of_day("2024-07-26");
  return variables;
}

std::string rendered(const std::string& source) {
  JinjaVariables variables;
  variables.values["text"] = "text";
  variables.values["list"] = JinjaValue::of({1, 2});
  variables.values["object"] = JinjaValue::of({{"a", 1}});
  variables.refused["secret"] = "may not be read";
  return JinjaTemplate(source).render(variables).text;
}

}  // namespace

BOOST_AUTO_TEST_CASE(texts_are_those_of_transformers) {
  int compared = 0, refused = 0;
  for (const json& given : golden()) {
    const JinjaTemplate parsed(given["template"].get<std::string>());
    for (const json& one : given["cases"])
      for (const char* name : {"text", "prompt"}) {
        BOOST_TEST_CONTEXT(given["name"] << ", " << name << " of " << one["messages"]) {
          const auto variables =
              variables_of(given["tokens"], one["messages"], std::string(name) == "prompt");
          if (one[name].is_object()) {
            expect_error(ErrorKind::data, {"line ", one[name]["error"]},
                         [&] { parsed.render(variables); });
            ++refused;
            continue;
          }
          const JinjaOutput output = parsed.render(variables);
          BOOST_TEST(output.text == one[name].get<std::string>());
          ++compared;
          if (!one.contains("generated")) continue;
          BOOST_TEST(parsed.marks_generated());
          json generated = json::array();
          for (const auto& [begin, end] : output.generated) generated.push_back({begin, end});
          BOOST_TEST(generated == one["generated"]);
        }
      }
  }
  BOOST_TEST(compared > 140);
  BOOST_TEST(refused > 2);
}

BOOST_AUTO_TEST_CASE(what_is_not_supported_is_refused_with_its_line) {
  const std::vector<std::pair<std::string, std::vector<std::string>>> cases{
      {"\n{% include 'a' %}", {"line 2", "statement include"}},
      {"{% raw %}{% endraw %}", {"statement raw"}},
      {"{% set x, y = list %}", {"set of several variables"}},
      {"a\n\n{{ list | groupby('a') }}", {"line 3", "filter groupby"}},
      {"{{ text | trim(1) }}", {"filter trim with an argument that is no string"}},
      {"{{ text | trim('a', 'b') }}", {"filter trim with so many arguments"}},
      {"{{ text | default('a', other=true) }}", {"filter default with an argument other"}},
      {"{{ text | tojson(indent=[]) }}", {"filter tojson with such an indent"}},
      {"{{ strftime_now | tojson }}", {"JSON of a function"}},
      {"{{ text is divisibleby 3 }}", {"a string % a number"}},
      {"{{ text is lower }}", {"test lower"}},
      {"{{ text.encode() }}", {"method encode of a string"}},
      {"{{ 'Z\xc3\xbcrich'.upper() }}", {"method upper", "beyond ASCII"}},
      {"{{ list.append(1) }}", {"method append of a list"}},
      {"{{ list.items() }}", {"method items of a list"}},
      {"{{ object.keys }}", {"member keys"}},
      {"{{ text.title }}", {"the member title of a string"}},
      {"{{ object.__class__ }}", {"the member __class__"}},
      {"{{ missing.a }}", {"an undefined value has no member a"}},
      {"{{ missing['a'] }}", {"an undefined value has no element by a string"}},
      {"{{ lipsum() }}", {"function lipsum"}},
      {"{{ range(200000) | length }}", {"function range over more than 100000 numbers"}},
      {"{{ missing() }}", {"call of an undefined value"}},
      {"{{ text[0]() }}", {"call of a string"}},
      {"{{ list[::0] }}", {"step 0"}},
      {"{{ list['a':] }}", {"a string as a bound"}},
      {"{{ object[1:] }}", {"part of an object"}},
      {"{{ text + 1 }}", {"a string + a number"}},
      {"{{ list + text }}", {"a list + a string"}},
      {"{{ 1 / 0 }}", {"1 / 0"}},
      {"{{ 1 % 0 }}", {"1 % 0"}},
      {"{{ 999999999999999999 * 999 }}", {"no number of 64 bits"}},
      {"{{ text * 99999999 }}", {"bytes"}},
      {"{{ 2 ** 3 }}", {"**"}},
      {"{{ 1 < 2 < 3 }}", {"several comparisons"}},
      {"{{ {1: 2} }}", {"a number as a member's name"}},
      {"{{ 'a\\101' }}", {"escape \\1"}},
      {"{{ '\\ud800' }}", {"escape of d800"}},
      {"{% for a, b in list %}{% endfor %}", {"a loop over a number"}},
      {"{% for a, b in [[1]] %}{% endfor %}", {"1 parts for 2 variables"}},
      {"{% for a in list recursive %}{% endfor %}", {"recursive"}},
      {"{% for a in 1 %}{% endfor %}", {"loop over a number"}},
      {"{% break %}", {"break outside of a loop"}},
      {"{% for a in list %}{% macro f() %}{% continue %}{% endmacro %}{% endfor %}",
       {"continue outside of a loop"}},
      {"{% for a in list %}{{ loop.depth }}{% endfor %}", {"loop.depth"}},
      {"{% for a in list %}{{ loop.cycle('a', 'b') }}{% endfor %}", {"method cycle of a loop"}},
      {"{% for a in list %}{{ loop }}{% endfor %}", {"writing a loop"}},
      {"{% set n = namespace(a=1) %}{{ n }}", {"writing a namespace"}},
      {"{% set object.a = 1 %}", {"object is no namespace"}},
      {"{% macro f(a) %}{% endmacro %}{{ f(1, 2) }}", {"function f with so many arguments"}},
      {"{% macro f(a) %}{% endmacro %}{{ f(b=2) }}", {"function f with an argument b"}},
      {"{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", {"calls of macros"}},
      {"{% macro f() %}{% generation %}{% endgeneration %}{% endmacro %}{{ f() }}",
       {"generated inside of a macro"}},
      {"{% set n = namespace() %}{% for a in list %}{% macro f() %}{% endmacro %}{% set n.f = f "
       "%}{% "
       "endfor %}{{ n.f() }}",
       {"where its loop has ended"}},
      {"{% call text %}{% endcall %}", {"call block without a call"}},
      {"{% set n = namespace(l=[]) %}{% for i in range(300) %}{% set n.l = [n.l] %}{% endfor %}",
       {"values nest deeper than 200"}},
      {"{{ secret }}", {"secret may not be read"}},
      {"{{ raise_exception('no\\n' ~ text) }}", {"the template refuses this: no\ntext"}},
  };
  for (const auto& [source, words] : cases) BOOST_TEST_CONTEXT(source)
  expect_error(ErrorKind::data, words, [&source = source] { rendered(source); });
}

BOOST_AUTO_TEST_CASE(what_a_template_does_not_come_to_may_be_unsupported) {
  BOOST_TEST(
      rendered("{% if false %}{{ list | groupby }}{{ f(a, b=1) }}{% for a, b in c %}{% break "
               "%}{% endfor %}{{ x.y(1).z | map('a', b='c') }}{{ 'a' if x is lower }}{% "
               "endif %}{{ text or secret }}") == "text");
}

BOOST_AUTO_TEST_CASE(broken_templates_are_refused) {
  for (const char* source : {"{{",
                             "{{ 'a",
                             "{{ 'a\\",
                             "{{ 'a\\x4' }}",
                             "{{ a",
                             "{{ a }",
                             "{% if a %}",
                             "{% if a %}b{% else %}",
                             "{% endif %}",
                             "{% else %}",
                             "{% for a in b %}",
                             "{% for in b %}",
                             "{% for a b %}{% endfor %}",
                             "{% set = 1 %}",
                             "{% set a = %}",
                             "{# a",
                             "{{ }}",
                             "{{ a b }}",
                             "{{ a. }}",
                             "{{ a[ }}",
                             "{{ a[] }}",
                             "{{ a(b }}",
                             "{{ a | }}",
                             "{{ a is }}",
                             "{{ (a }}",
                             "{{ a) }}",
                             "{{ [a, }}",
                             "{{ $ }}",
                             "{{ \xc3\xa4 }}",
                             "{{ a not b }}",
                             "{{ 07 }}",
                             "{{ 1234567890123456789 }}",
                             "{% %}",
                             "{%",
                             "{% generation %}",
                             "{% macro f %}{% endmacro %}",
                             "{% macro f( %}",
                             "{% macro f() %}",
                             "{% call f() %}",
                             "{% set a %}",
                             "{{ {'a' 1} }}",
                             "{{ (1, }}",
                             "{{ 1.5.2 }}",
                             "{{ 1e }}",
                             "{{ a if }}",
                             "{{ not }}",
                             "{% if a %}{% elif %}{% endif %}"})
    BOOST_TEST_CONTEXT(source)
  expect_error(ErrorKind::data, {"line 1: "}, [source] { rendered(source); });
}

BOOST_AUTO_TEST_CASE(deep_templates_are_refused) {
  const auto repeated = [](const std::string& text, int times) {
    std::string whole;
    for (int i = 0; i < times; ++i) whole += text;
    return whole;
  };
  constexpr int kMany = 100'000;
  for (const std::string& source :
       {"{{ " + repeated("(", kMany) + repeated(")", kMany) + " }}",
        "{{ " + repeated("[", kMany) + repeated("]", kMany) + " }}",
        "{{ " + repeated("not ", kMany) + " }}", "{{ 1" + repeated("+ 1", kMany) + " }}",
        "{{ a" + repeated(".b", kMany) + " }}", "{{ a" + repeated("|trim", kMany) + " }}",
        repeated("{% if a %}", kMany), "{% if a %}" + repeated("{% elif a %}", kMany),
        "{{ a" + repeated(" if a else a", kMany) + " }}"})
    expect_error(ErrorKind::data, {"line 1: ", "200"}, [&source] { rendered(source); });
  BOOST_TEST(rendered("{{ 1" + repeated(" + 1", 100) + " }}") == "101");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
