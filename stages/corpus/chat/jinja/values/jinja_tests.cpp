#include <algorithm>
#include <array>

#include "stages/corpus/chat/jinja/values/jinja_filters.h"
#include "stages/corpus/chat/jinja/values/jinja_operators.h"

// What stands behind `is`.

namespace troupe::stages {
namespace {

using Kind = JinjaValue::Kind;

/// Tests of a value alone.
struct KindTest {
  std::string_view name;
  bool (*passes)(const JinjaValue&);
};
constexpr auto kKindTests = std::to_array<KindTest>(
    {{"defined", [](const JinjaValue& v) { return v.is_defined(); }},
     {"undefined", [](const JinjaValue& v) { return !v.is_defined(); }},
     {"none", [](const JinjaValue& v) { return v.is(Kind::none); }},
     {"string", [](const JinjaValue& v) { return v.is_string(); }},
     {"mapping", [](const JinjaValue& v) { return v.is(Kind::object); }},
     {"iterable",
      [](const JinjaValue& v) {
        return !v.is_defined() || v.is_string() || v.is_sequence() || v.is(Kind::object) ||
               v.is(Kind::loop);
      }},
     {"sequence",
      [](const JinjaValue& v) {
        return !v.is_defined() || v.is_string() || v.is_sequence() || v.is(Kind::object);
      }},
     {"boolean", [](const JinjaValue& v) { return v.is(Kind::boolean); }},
     {"integer", [](const JinjaValue& v) { return v.is(Kind::integer); }},
     {"float", [](const JinjaValue& v) { return v.is(Kind::number); }},
     {"number", [](const JinjaValue& v) { return v.is_number(); }},
     {"true", [](const JinjaValue& v) { return v.is(Kind::boolean) && v.boolean(); }},
     {"false", [](const JinjaValue& v) { return v.is(Kind::boolean) && !v.boolean(); }},
     {"callable", [](const JinjaValue& v) { return v.is(Kind::macro) || v.is(Kind::function); }}});

/// Tests of two values, by the operators that they stand for.
struct ComparingTest {
  std::string_view name;
  std::string_view sign;
};
constexpr auto kComparingTests = std::to_array<ComparingTest>({{"eq", "=="},
                                                               {"equalto", "=="},
                                                               {"==", "=="},
                                                               {"ne", "!="},
                                                               {"!=", "!="},
                                                               {"lt", "<"},
                                                               {"lessthan", "<"},
                                                               {"<", "<"},
                                                               {"le", "<="},
                                                               {"<=", "<="},
                                                               {"gt", ">"},
                                                               {"greaterthan", ">"},
                                                               {">", ">"},
                                                               {"ge", ">="},
                                                               {">=", ">="},
                                                               {"in", "in"}});

bool divides(const JinjaValue& value, const JinjaValue& by, const JinjaArguments& arguments) {
  return are_equal(operate("%", value, by, arguments.line()), 0);
}

}  // namespace

bool passes_test(const JinjaValue& value, const std::string& name, JinjaArguments& arguments) {
  if (const auto* of_kind = std::ranges::find(kKindTests, name, &KindTest::name);
      of_kind != kKindTests.end()) {
    arguments.expect_none();
    return of_kind->passes(value);
  }
  if (name == "odd") return !divides(value, 2, arguments);
  if (name == "even") return divides(value, 2, arguments);
  const auto* const comparing = std::ranges::find(kComparingTests, name, &ComparingTest::name);
  if (comparing == kComparingTests.end() && name != "divisibleby") arguments.fail("");
  const JinjaValue other = arguments.take_needed("an argument");
  arguments.expect_none();
  if (name == "divisibleby") return divides(value, other, arguments);
  return is_true(operate(comparing->sign, value, other, arguments.line()));
}

}  // namespace troupe::stages
