#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>
#include <string>

#include "stages/corpus/chat/jinja/jinja_template.h"
#include "stages/corpus/tokenizers/text/utf8.h"
#include "tensor/errors/error.h"
#include "tests/support/mutate.h"
#include "tests/support/seed.h"

BOOST_AUTO_TEST_SUITE(chat_template_fuzz_test)

using namespace troupe;
using namespace troupe::stages;

namespace {

constexpr int kRounds = 20000;
const std::string kSound =
    "{%- set ns = namespace(n=0) -%}\n"
    "{% for m in messages if m.role != 'x' %}\n"
    "  {%- if loop.first and not tools %}{{ bos_token ~ m['role'] | trim }}{% elif m.content in "
    "['a', \"b\\n\"] %}{{ m.content.strip()[1:] }}{% else %}{% set ns.n = ns.n + 1 * 2 - 3 % 4 "
    "%}{% "
    "endif %}{# c #}\n{{ messages[-1]['content'] + '\\u00e4' if loop.last else none is defined }}\n"
    "{% endfor %}{% generation %}{{- ns.n }}{% endgeneration %}\n"
    "{% macro f(a, b=[1.5, (2,)]) %}{% if a is mapping %}{% for k, v in a.items() %}{{ k }}{{ f(v) "
    "}}"
    "{% if loop.index > 3 %}{% break %}{% endif %}{% endfor %}{% else %}{{ a | tojson(indent=2) ~ "
    "b "
    "}}{{ caller() if caller }}{% endif %}{% endmacro %}\n"
    "{% call f({'x': messages[::-1] | map(attribute='role') | list}) %}{{ 'b a'.title() }}{% "
    "endcall "
    "%}{% set c %}{{ range(4) | select('odd') | join('-') }}{% endset %}{{ c[1:] * 2 }}\n";

}  // namespace

BOOST_AUTO_TEST_CASE(any_template_is_rendered_or_refused_with_its_line) {
  std::mt19937_64 random(test::fresh_seed());
  JinjaVariables variables;
  variables.values["bos_token"] = "<s>";
  variables.values["messages"] = JinjaValue::of(
      {{{"role", "user"}, {"content", "a"}}, {{"role", "assistant"}, {"content", "b"}}});
  int refused = 0;
  for (int round = 0; round < kRounds; ++round) {
    try {
      JinjaTemplate(valid_utf8(test::mutated(kSound, random))).render(variables);
    } catch (const Error& error) {
      BOOST_REQUIRE(error.kind() == ErrorKind::data);
      BOOST_REQUIRE(std::string(error.what()).starts_with("line "));
      ++refused;
    }
  }
  BOOST_TEST(refused > kRounds / 2);
  BOOST_TEST(refused < kRounds);
}

BOOST_AUTO_TEST_SUITE_END()
