#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "stages/corpus/chat/jinja_lexer.h"
#include "stages/corpus/chat/jinja_values.h"
#include "stages/corpus/tokenizers/text/utf8.h"

// Methods of strings, and filters.

namespace troupe::stages {
namespace {

using nlohmann::json;

enum class Sides { before, behind, both };

/// Python's strip: without the white space, or the characters of `set`, at one side or both.
std::string stripped(std::string_view text, const std::string* set, Sides sides) {
  const auto is_stripped = [set](char32_t character) {
    return set ? set->find(utf8_of(character)) != std::string::npos : is_python_space(character);
  };
  if (sides != Sides::behind) text = without_front(text, is_stripped);
  if (sides != Sides::before) text = without_back(text, is_stripped);
  return std::string(text);
}

json split(const std::string& text, const std::string& separator) {
  json parts = json::array();
  std::size_t begin = 0;
  for (std::size_t end; (end = text.find(separator, begin)) != std::string::npos;
       begin = end + separator.size())
    parts.push_back(text.substr(begin, end - begin));
  parts.push_back(text.substr(begin));
  return parts;
}

std::int64_t length_of(const JinjaValue& value, int line) {
  if (!value) return 0;
  if (value->is_structured()) return static_cast<std::int64_t>(value->size());
  if (!value->is_string()) fail_in_line(line, "the length of a value that has none");
  std::int64_t characters = 0;
  for (std::string_view text = value->get_ref<const std::string&>(); !text.empty(); ++characters)
    text.remove_prefix(first_char_bytes(text));
  return characters;
}

}  // namespace

JinjaValue call_method(const JinjaValue& target, const std::string& name,
                       const JinjaArguments& arguments, int line) {
  const auto refuse = [&](std::string_view why) {
    fail_in_line(line, fmt::format("the method {} {} is not supported", name, why));
  };
  if (!target || !target->is_string()) refuse("of what is no string");
  if (arguments.size() > 1) refuse("with several arguments");
  const std::string* argument = nullptr;
  if (!arguments.empty()) {
    if (!arguments[0] || !arguments[0]->is_string()) refuse("with an argument that is no string");
    argument = arguments[0]->get_ptr<const std::string*>();
  }
  const auto& text = target->get_ref<const std::string&>();
  if (name == "strip") return jinja_value(stripped(text, argument, Sides::both));
  if (name == "lstrip") return jinja_value(stripped(text, argument, Sides::before));
  if (name == "rstrip") return jinja_value(stripped(text, argument, Sides::behind));
  if (name != "startswith" && name != "endswith" && name != "split") refuse("of a string");
  if (!argument) refuse("without an argument");
  if (name == "startswith") return jinja_value(text.starts_with(*argument));
  if (name == "endswith") return jinja_value(text.ends_with(*argument));
  if (argument->empty()) refuse("at an empty string");
  return jinja_value(split(text, *argument));
}

JinjaValue filtered(const JinjaValue& value, const std::string& name,
                    const JinjaArguments& arguments, int line) {
  if (name == "default" && arguments.size() == 1) return value ? value : arguments[0];
  if (!arguments.empty())
    fail_in_line(line, fmt::format("the filter {} with arguments is not supported", name));
  if (name == "trim") return jinja_value(stripped(text_of(value, line), nullptr, Sides::both));
  if (name == "string") return jinja_value(text_of(value, line));
  if (name == "length" || name == "count") return jinja_value(length_of(value, line));
  fail_in_line(line, fmt::format("the filter {} is not supported", name));
}

}  // namespace troupe::stages
