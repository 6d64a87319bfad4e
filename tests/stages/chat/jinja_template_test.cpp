#include "stages/corpus/chat/jinja_template.h"

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "stages/corpus/chat/jinja_values.h"
#include "tests/support/expect_error.h"

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(jinja_template_test)

namespace {

using nlohmann::json;
using stages::jinja_value;
using stages::JinjaOutput;
using stages::JinjaTemplate;
using stages::JinjaVariables;

/// Templates, and what transformers makes with them; make_golden.py wrote it.
json golden() {
  std::ifstream file(std::filesystem::path(__FILE__).parent_path() / "golden.json");
  return json::parse(file);
}

JinjaVariables variables_of(const json& tokens, const json& messages, bool prompt) {
  JinjaVariables variables;
  for (const auto& [name, value] : tokens.items()) variables.values[name] = jinja_value(value);
  variables.values["tools"] = variables.values["documents"] = jinja_value(nullptr);
  variables.values["messages"] = jinja_value(messages);
  variables.values["add_generation_prompt"] = jinja_value(prompt);
  return variables;
}

std::string rendered(const std::string& source) {
  JinjaVariables variables;
  variables.values["text"] = jinja_value("text");
  variables.values["list"] = jinja_value({1, 2});
  variables.values["object"] = jinja_value({{"a", 1}});
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
  BOOST_TEST(compared > 70);
  BOOST_TEST(refused > 2);
}

BOOST_AUTO_TEST_CASE(what_is_not_supported_is_refused_with_its_line) {
  const std::vector<std::pair<std::string, std::vector<std::string>>> cases{
      {"\n{% macro f() %}{% endmacro %}", {"line 2", "statement macro"}},
      {"{% raw %}{% endraw %}", {"statement raw"}},
      {"{% set x %}a{% endset %}", {"set without ="}},
      {"a\n\n{{ list | tojson }}", {"line 3", "filter tojson"}},
      {"{{ text | trim(1) }}", {"filter trim with arguments"}},
      {"{{ text | default('a', boolean=true) }}", {"filter default with named"}},
      {"{{ text is divisibleby 3 }}", {"test divisibleby with an argument"}},
      {"{{ text is lower }}", {"test lower"}},
      {"{{ text.upper() }}", {"method upper of a string"}},
      {"{{ object.items() }}", {"method items of what is no string"}},
      {"{{ object.keys }}", {"member keys"}},
      {"{{ text.length }}", {"a string has no member length"}},
      {"{{ missing.a }}", {"an undefined value has no member a"}},
      {"{{ strftime_now('%d') }}", {"function strftime_now"}},
      {"{{ range(3) }}", {"function range"}},
      {"{{ missing() }}", {"function missing"}},
      {"{{ text[0]() }}", {"this call"}},
      {"{{ text[0] }}", {"a string has no element by a number"}},
      {"{{ list[::2] }}", {"slice with a step"}},
      {"{{ text[1:] }}", {"part of a string"}},
      {"{{ list }}", {"writing a list"}},
      {"{{ text + 1 }}", {"a string + a number"}},
      {"{{ 1 / 2 }}", {"a number / a number"}},
      {"{{ 1 % 0 }}", {"1 % 0"}},
      {"{{ 999999999999999999 * 999 }}", {"no number of 64 bits"}},
      {"{{ 2 ** 3 }}", {"**"}},
      {"{{ 1.5 }}", {"the number that begins with 1"}},
      {"{{ 1 < 2 < 3 }}", {"several comparisons"}},
      {"{{ true == 1 }}", {"boolean with a number"}},
      {"{{ (1, 2) }}", {"tuple"}},
      {"{{ {'a': 1} }}", {"in braces"}},
      {"{{ 'a\\101' }}", {"escape \\1"}},
      {"{{ '\\ud800' }}", {"escape of d800"}},
      {"{% for a, b in list %}{% endfor %}", {"several variables"}},
      {"{% for a in list recursive %}{% endfor %}", {"recursive"}},
      {"{% for a in text %}{% endfor %}", {"loop over what is no list"}},
      {"{% for a in list %}{% break %}{% endfor %}", {"statement break"}},
      {"{% for a in list %}{{ loop.cycle }}{% endfor %}", {"loop.cycle"}},
      {"{% for a in list %}{{ loop }}{% endfor %}", {"loop as a value"}},
      {"{% set n = namespace(a=1) %}{% set m = n %}", {"namespace n as a value"}},
      {"{% set object.a = 1 %}", {"object is no namespace"}},
      {"{{ secret }}", {"secret may not be read"}},
      {"{{ raise_exception('no\\n' ~ text) }}", {"the template refuses this: no\ntext"}},
  };
  for (const auto& [source, words] : cases) BOOST_TEST_CONTEXT(source)
  expect_error(ErrorKind::data, words, [&source = source] { rendered(source); });
}

BOOST_AUTO_TEST_CASE(what_a_template_does_not_come_to_may_be_unsupported) {
  BOOST_TEST(rendered("{% if false %}{{ list | tojson }}{{ f(a, b=1) }}{% for a, b in c %}{% break "
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
