#include "stages/corpus/chat/jinja/values/jinja_filters.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "stages/corpus/chat/jinja/values/jinja_methods.h"
#include "stages/corpus/chat/jinja/values/jinja_operators.h"
#include "stages/corpus/chat/jinja/values/jinja_text.h"
#include "stages/corpus/chat/jinja/values/python_strings.h"
#include "stages/corpus/tokenizers/text/utf8.h"

namespace troupe::stages {
namespace {

using Kind = JinjaValue::Kind;
using Filter = JinjaValue (*)(const JinjaValue&, JinjaArguments&);

std::string text_of(const JinjaValue& value, const JinjaArguments& arguments) {
  return text_of(value, arguments.line());
}

JinjaList elements_of(const JinjaValue& value, const JinjaArguments& arguments) {
  return elements_of(value, arguments.line());
}

JinjaValue otherwise(const JinjaValue& value, JinjaArguments& arguments) {
  const JinjaValue given = arguments.take("default_value", "");
  const bool takes_false = is_true(arguments.take("boolean", false));
  return (takes_false ? is_true(value) : value.is_defined()) ? value : given;
}

JinjaValue trim(const JinjaValue& value, JinjaArguments& arguments) {
  const JinjaValue set = arguments.take("chars", nullptr);
  if (!set.is(Kind::none) && !set.is_string()) arguments.fail("with an argument that is no string");
  return stripped(text_of(value, arguments), set.is_string() ? &set.text() : nullptr, Sides::both);
}

JinjaValue string(const JinjaValue& value, JinjaArguments& arguments) {
  return text_of(value, arguments);
}

JinjaValue length(const JinjaValue& value, JinjaArguments& arguments) {
  if (value.is_number() || value.is(Kind::none))
    arguments.fail("of " + std::string(kind_name(value)));
  return elements_of(value, arguments).size();
}

JinjaValue list(const JinjaValue& value, JinjaArguments& arguments) {
  return JinjaValue::list(elements_of(value, arguments));
}

JinjaValue first(const JinjaValue& value, JinjaArguments& arguments) {
  const JinjaList all = elements_of(value, arguments);
  return all.empty() ? JinjaValue() : all.front();
}

JinjaValue last(const JinjaValue& value, JinjaArguments& arguments) {
  const JinjaList all = elements_of(value, arguments);
  return all.empty() ? JinjaValue() : all.back();
}

JinjaValue reverse(const JinjaValue& value, JinjaArguments& arguments) {
  JinjaList all = elements_of(value, arguments);
  std::ranges::reverse(all);
  if (!value.is_string()) return JinjaValue::list(std::move(all));
  std::string text;
  for (const JinjaValue& one : all) text += one.text();
  return text;
}

template <Case how>
JinjaValue change_case(const JinjaValue& value, JinjaArguments& arguments) {
  const std::string text = text_of(value, arguments);
  check_ascii(text, arguments);
  return in_case(text, how);
}

/// Jinja's own, for which words end at white space, hyphens and opening brackets.
JinjaValue title(const JinjaValue& value, JinjaArguments& arguments) {
  std::string text = text_of(value, arguments);
  check_ascii(text, arguments);
  std::size_t word = 0;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size() && std::string_view(" \t\n\r\f\v-({[<").find(text[i]) == std::string::npos)
      continue;
    text.replace(word, i - word, in_case(text.substr(word, i - word), Case::capitalized));
    word = i + 1;
  }
  return text;
}

JinjaValue replace(const JinjaValue& value, JinjaArguments& arguments) {
  const std::string old = arguments.take_text("old"), by = arguments.take_text("new");
  return replaced(text_of(value, arguments), old, by, arguments.take_integer("count", -1));
}

/// The member at a path of names, or numbers of elements, divided by dots.
JinjaValue member_at(JinjaValue value, const JinjaValue& path, const JinjaArguments& arguments) {
  if (path.is_integer()) return element_of(value, path, arguments.line());
  if (!path.is_string()) arguments.fail("by " + std::string(kind_name(path)));
  for (const std::string& part : split_at(path.text(), ".", -1, false)) {
    std::int64_t number = 0;
    const bool is_number = std::from_chars(part.data(), part.data() + part.size(), number).ptr ==
                               part.data() + part.size() &&
                           part.find('-') == std::string::npos && !part.empty();
    value = element_of(value, is_number ? JinjaValue(number) : JinjaValue(part), arguments.line());
  }
  return value;
}

JinjaValue join(const JinjaValue& value, JinjaArguments& arguments) {
  const std::string between = text_of(arguments.take("d", ""), arguments);
  const JinjaValue attribute = arguments.take("attribute", nullptr);
  std::string whole;
  const JinjaList parts = elements_of(value, arguments);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const JinjaValue part =
        attribute.is(Kind::none) ? parts[i] : member_at(parts[i], attribute, arguments);
    whole += (i == 0 ? "" : between) + text_of(part, arguments);
  }
  return whole;
}

JinjaValue map(const JinjaValue& value, JinjaArguments& arguments) {
  JinjaList results;
  const JinjaList all = elements_of(value, arguments);
  if (const auto name = arguments.take("filter")) {
    if (!name->is_string()) arguments.fail("with a filter that is no name");
    for (const JinjaValue& one : all) {
      JinjaArguments copy = arguments;
      results.push_back(filtered(one, name->text(), copy));
    }
    arguments.clear();  // each of the elements' has had them
    return JinjaValue::list(std::move(results));
  }
  const JinjaValue attribute = arguments.take_needed("attribute");
  const JinjaValue missing = arguments.take("default", {});
  for (const JinjaValue& one : all) {
    JinjaValue member = member_at(one, attribute, arguments);
    results.push_back(member.is_defined() ? std::move(member) : missing);
  }
  return JinjaValue::list(std::move(results));
}

/// The elements that pass a test, or those that do not; of each itself or a member is tested.
template <bool takes, bool by_member>
JinjaValue select(const JinjaValue& value, JinjaArguments& arguments) {
  JinjaValue path;
  if (by_member) path = arguments.take_needed("attribute");
  const auto test = arguments.take("test");
  if (test && !test->is_string()) arguments.fail("with a test that is no name");
  JinjaList results;
  for (const JinjaValue& one : elements_of(value, arguments)) {
    JinjaValue tested = one;
    if (by_member) tested = member_at(one, path, arguments);
    JinjaArguments copy = arguments;
    const bool passes = test ? passes_test(tested, test->text(), copy) : is_true(tested);
    if (passes == takes) results.push_back(one);
  }
  arguments.clear();  // each of the elements' tests has had them
  return JinjaValue::list(std::move(results));
}

JinjaValue items(const JinjaValue& value, JinjaArguments& arguments) {
  if (!value.is_defined()) return JinjaValue::list({});
  JinjaArguments none("the filter items", arguments.line());
  return call_method(value, "items", none);
}

/// Members by their names, whose case does not count.
JinjaValue sorted_items(const JinjaValue& value, JinjaArguments& arguments) {
  if (!value.is(Kind::object)) arguments.fail("of " + std::string(kind_name(value)));
  JinjaObject members = value.members();
  for (const auto& [name, member] : members) check_ascii(name, arguments);
  std::ranges::stable_sort(members, {},
                           [](const auto& member) { return in_case(member.first, Case::lower); });
  JinjaArguments none("the filter dictsort", arguments.line());
  return call_method(JinjaValue::object(std::move(members)), "items", none);
}

JinjaValue to_json(const JinjaValue& value, JinjaArguments& arguments) {
  JsonStyle style;
  style.ascii = is_true(arguments.take("ensure_ascii", false));
  const JinjaValue indent = arguments.take("indent", nullptr);
  const JinjaValue separators = arguments.take("separators", nullptr);
  style.sorted = is_true(arguments.take("sort_keys", false));
  if (indent.is_string())
    style.indent = indent.text();
  else if (indent.is_integer())
    style.indent = std::string(
        static_cast<std::size_t>(std::clamp<std::int64_t>(indent.integer(), 0, 100)), ' ');
  else if (!indent.is(Kind::none))
    arguments.fail("with such an indent");
  if (style.indent) style.between = ",";
  if (!separators.is(Kind::none)) {
    if (!separators.is_sequence() || separators.elements().size() != 2 ||
        !separators.elements()[0].is_string() || !separators.elements()[1].is_string())
      arguments.fail("with separators that are not two strings");
    style.between = separators.elements()[0].text();
    style.behind_key = separators.elements()[1].text();
  }
  return json_text_of(value, style, arguments.line());
}

JinjaValue indent(const JinjaValue& value, JinjaArguments& arguments) {
  const JinjaValue width = arguments.take("width", 4);
  const bool at_first = is_true(arguments.take("first", false));
  const bool at_blank = is_true(arguments.take("blank", false));
  if (!width.is_string() && !width.is_integer()) arguments.fail("with such a width");
  const std::string space =
      width.is_string()
          ? width.text()
          : std::string(
                static_cast<std::size_t>(std::clamp<std::int64_t>(width.integer(), 0, 1000)), ' ');
  const std::vector<std::string> lines = lines_of(text_of(value, arguments) + "\n");
  std::string text;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) text += '\n';
    if (i == 0 ? at_first : at_blank || !lines[i].empty()) text += space;
    text += lines[i];
  }
  return text;
}

JinjaValue absolute(const JinjaValue& value, JinjaArguments& arguments) {
  if (!value.is_number()) arguments.fail("of " + std::string(kind_name(value)));
  return value.number() < 0 ? negative(value, arguments.line()) : value;
}

JinjaValue integer(const JinjaValue& value, JinjaArguments& arguments) {
  const JinjaValue fallback = arguments.take("default", 0);
  if (value.is_integer()) return value.integer();
  if (value.is(Kind::number) && std::abs(value.number()) < 1e18)
    return static_cast<std::int64_t>(value.number());
  if (!value.is_string()) return fallback;
  const std::string text = stripped(value.text(), nullptr, Sides::both);
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc() && end == text.data() + text.size()) return number;
  if (text.find_first_of("0123456789") != std::string::npos)
    arguments.fail("of a text that is no decimal integer");
  return fallback;
}

struct NamedFilter {
  std::string_view name;
  Filter apply;
};
constexpr auto kFilters =
    std::to_array<NamedFilter>({{"default", otherwise},
                                {"d", otherwise},
                                {"trim", trim},
                                {"string", string},
                                {"safe", string},  // nothing is escaped
                                {"length", length},
                                {"count", length},
                                {"list", list},
                                {"first", first},
                                {"last", last},
                                {"reverse", reverse},
                                {"upper", change_case<Case::upper>},
                                {"lower", change_case<Case::lower>},
                                {"capitalize", change_case<Case::capitalized>},
                                {"title", title},
                                {"replace", replace},
                                {"join", join},
                                {"map", map},
                                {"select", select<true, false>},
                                {"reject", select<false, false>},
                                {"selectattr", select<true, true>},
                                {"rejectattr", select<false, true>},
                                {"items", items},
                                {"dictsort", sorted_items},
                                {"tojson", to_json},
                                {"indent", indent},
                                {"abs", absolute},
                                {"int", integer}});

}  // namespace

JinjaValue filtered(const JinjaValue& value, const std::string& name, JinjaArguments& arguments) {
  const auto* const filter = std::ranges::find(kFilters, name, &NamedFilter::name);
  if (filter == kFilters.end()) arguments.fail("");
  JinjaValue result = filter->apply(value, arguments);
  arguments.expect_none();
  return result;
}

}  // namespace troupe::stages
