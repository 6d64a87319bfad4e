#include "stages/corpus/chat/jinja/values/jinja_methods.h"

#include <algorithm>
#include <array>

#include "stages/corpus/chat/jinja/values/jinja_operators.h"
#include "stages/corpus/chat/jinja/values/jinja_text.h"
#include "stages/corpus/chat/jinja/values/python_strings.h"

namespace troupe::stages {
namespace {

using Kind = JinjaValue::Kind;

using StringMethod = JinjaValue (*)(const std::string&, JinjaArguments&);
using ObjectMethod = JinjaValue (*)(const JinjaValue&, JinjaArguments&);
template <typename Method>
struct Named {
  std::string_view name;
  Method method;
};

JinjaValue list_of(const std::vector<std::string>& texts) {
  return JinjaValue::list({texts.begin(), texts.end()});
}

template <Sides sides>
JinjaValue strip(const std::string& text, JinjaArguments& arguments) {
  const JinjaValue set = arguments.take("chars", nullptr);
  if (set.is(Kind::none)) return stripped(text, nullptr, sides);
  if (!set.is_string()) arguments.fail("with characters that are no string");
  return stripped(text, &set.text(), sides);
}

template <bool from_behind>
JinjaValue split(const std::string& text, JinjaArguments& arguments) {
  const JinjaValue separator = arguments.take("sep", nullptr);
  const std::int64_t most = arguments.take_integer("maxsplit", -1);
  if (separator.is(Kind::none)) {
    if (most >= 0) arguments.fail("with a number and no separator");
    return list_of(split_at_space(text));
  }
  if (!separator.is_string() || separator.text().empty())
    arguments.fail("at what is no string, or an empty one,");
  return list_of(split_at(text, separator.text(), most, from_behind));
}

/// Whether a text begins, or ends, with a string or one of several.
template <typename Fits>
JinjaValue any_fits(JinjaArguments& arguments, const Fits& fits) {
  const JinjaValue parts = arguments.take_needed("an argument");
  if (parts.is_string()) return fits(parts.text());
  if (!parts.is(Kind::tuple)) arguments.fail("with an argument that is no string");
  return std::ranges::any_of(parts.elements(), [&](const JinjaValue& part) {
    if (!part.is_string()) arguments.fail("with an argument that is no string");
    return fits(part.text());
  });
}

JinjaValue starts_with(const std::string& text, JinjaArguments& arguments) {
  return any_fits(arguments, [&](const std::string& part) { return text.starts_with(part); });
}

JinjaValue ends_with(const std::string& text, JinjaArguments& arguments) {
  return any_fits(arguments, [&](const std::string& part) { return text.ends_with(part); });
}

template <Case how>
JinjaValue change_case(const std::string& text, JinjaArguments& arguments) {
  check_ascii(text, arguments);
  return in_case(text, how);
}

/// The characters before a byte of a text; of none -1.
JinjaValue place_of(const std::string& text, std::size_t byte) {
  if (byte == std::string::npos) return -1;
  return characters_of(std::string_view(text).substr(0, byte)).size();
}

JinjaValue find(const std::string& text, JinjaArguments& arguments) {
  return place_of(text, text.find(arguments.take_text("an argument")));
}

JinjaValue find_last(const std::string& text, JinjaArguments& arguments) {
  return place_of(text, text.rfind(arguments.take_text("an argument")));
}

JinjaValue count(const std::string& text, JinjaArguments& arguments) {
  return count_of(text, arguments.take_text("an argument"));
}

JinjaValue replace(const std::string& text, JinjaArguments& arguments) {
  const std::string old = arguments.take_text("old"), by = arguments.take_text("new");
  return replaced(text, old, by, arguments.take_integer("count", -1));
}

JinjaValue join(const std::string& text, JinjaArguments& arguments) {
  std::string whole;
  const JinjaList parts = elements_of(arguments.take_needed("an argument"), arguments.line());
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (!parts[i].is_string()) arguments.fail("of what is no string");
    whole += (i == 0 ? "" : text) + parts[i].text();
  }
  return whole;
}

JinjaValue without_prefix(const std::string& text, JinjaArguments& arguments) {
  const std::string part = arguments.take_text("an argument");
  return text.starts_with(part) ? text.substr(part.size()) : text;
}

JinjaValue without_suffix(const std::string& text, JinjaArguments& arguments) {
  const std::string part = arguments.take_text("an argument");
  return text.ends_with(part) ? text.substr(0, text.size() - part.size()) : text;
}

JinjaValue split_lines(const std::string& text, JinjaArguments&) {
  return list_of(lines_of(text));
}

JinjaValue is_digits(const std::string& text, JinjaArguments& arguments) {
  check_ascii(text, arguments);
  return !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
}

constexpr auto kStringMethods =
    std::to_array<Named<StringMethod>>({{"strip", strip<Sides::both>},
                                        {"lstrip", strip<Sides::before>},
                                        {"rstrip", strip<Sides::behind>},
                                        {"split", split<false>},
                                        {"rsplit", split<true>},
                                        {"splitlines", split_lines},
                                        {"startswith", starts_with},
                                        {"endswith", ends_with},
                                        {"removeprefix", without_prefix},
                                        {"removesuffix", without_suffix},
                                        {"upper", change_case<Case::upper>},
                                        {"lower", change_case<Case::lower>},
                                        {"capitalize", change_case<Case::capitalized>},
                                        {"title", change_case<Case::title>},
                                        {"find", find},
                                        {"rfind", find_last},
                                        {"count", count},
                                        {"replace", replace},
                                        {"join", join},
                                        {"isdigit", is_digits}});

JinjaValue items(const JinjaValue& object, JinjaArguments&) {
  JinjaList pairs;
  for (const auto& [name, member] : object.members())
    pairs.push_back(JinjaValue::list({name, member}, Kind::tuple));
  return JinjaValue::list(std::move(pairs));
}

JinjaValue keys(const JinjaValue& object, JinjaArguments& arguments) {
  return JinjaValue::list(elements_of(object, arguments.line()));
}

JinjaValue values(const JinjaValue& object, JinjaArguments&) {
  JinjaList all;
  for (const auto& [name, member] : object.members()) all.push_back(member);
  return JinjaValue::list(std::move(all));
}

JinjaValue get(const JinjaValue& object, JinjaArguments& arguments) {
  const JinjaValue* member = object.find(arguments.take_text("a name"));
  JinjaValue otherwise = arguments.take("default", nullptr);
  return member ? *member : otherwise;
}

constexpr auto kObjectMethods = std::to_array<Named<ObjectMethod>>(
    {{"items", items}, {"keys", keys}, {"values", values}, {"get", get}});

// Methods of Python's types that are none of the above, and so no members either.
constexpr auto kOtherOfStrings = std::to_array<std::string_view>(
    {"casefold", "center",    "encode",      "expandtabs", "format",    "format_map",
     "index",    "isalnum",   "isalpha",     "isascii",    "isdecimal", "isidentifier",
     "islower",  "isnumeric", "isprintable", "isspace",    "istitle",   "isupper",
     "ljust",    "maketrans", "partition",   "rindex",     "rjust",     "rpartition",
     "swapcase", "translate", "zfill"});
constexpr auto kOtherOfObjects = std::to_array<std::string_view>(
    {"clear", "copy", "fromkeys", "pop", "popitem", "setdefault", "update"});
constexpr auto kOfLists =
    std::to_array<std::string_view>({"append", "clear", "copy", "count", "extend", "index",
                                     "insert", "pop", "remove", "reverse", "sort"});

/// The method of this name; null if there is none.
template <typename Method, std::size_t n>
Method method_of(const std::array<Named<Method>, n>& methods, std::string_view name) {
  const auto found = std::ranges::find(methods, name, &Named<Method>::name);
  return found == methods.end() ? nullptr : found->method;
}

template <typename Names>
bool has(const Names& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

}  // namespace

void check_ascii(const std::string& text, const JinjaArguments& arguments) {
  if (std::ranges::any_of(text, [](char c) { return static_cast<unsigned char>(c) >= 0x80; }))
    arguments.fail("of a text with characters beyond ASCII");
}

bool is_python_method(const JinjaValue& value, std::string_view name) {
  if (value.is_string()) return method_of(kStringMethods, name) || has(kOtherOfStrings, name);
  if (value.is(Kind::object)) return method_of(kObjectMethods, name) || has(kOtherOfObjects, name);
  return value.is_sequence() && has(kOfLists, name);
}

JinjaValue call_method(const JinjaValue& target, const std::string& name,
                       JinjaArguments& arguments) {
  JinjaValue result;
  if (const auto of_string = method_of(kStringMethods, name); target.is_string() && of_string)
    result = of_string(target.text(), arguments);
  else if (const auto of_object = method_of(kObjectMethods, name);
           target.is(Kind::object) && of_object)
    result = of_object(target, arguments);
  else
    arguments.fail("of " + std::string(kind_name(target)));
  arguments.expect_none();
  return result;
}

}  // namespace troupe::stages
