#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>
#include <string>

#include "stages/corpus/chat/jinja_template.h"
#include "stages/corpus/chat/jinja_values.h"
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
    "{% endfor %}{% generation %}{{- ns.n }}{% endgeneration %}\n";

}  // namespace

BOOST_AUTO_TEST_CASE(any_template_is_rendered_or_refused_with_its_line) {
  std::mt19937_64 random(test::fresh_seed());
  JinjaVariables variables;
  variables.values["bos_token"] = jinja_value("<s>");
  variables.values["messages"] = jinja_value(
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
