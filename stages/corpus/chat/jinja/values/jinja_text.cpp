#include "stages/corpus/chat/jinja/values/jinja_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "stages/corpus/chat/jinja/values/jinja_fault.h"
#include "stages/corpus/tokenizers/text/regex.h"
#include "stages/corpus/tokenizers/text/utf8.h"

namespace troupe::stages {
namespace {

using Kind = JinjaValue::Kind;

/// Python's repr() of a float: the fewest digits that give it back, with an exponent from 1e16 on
/// and below 1e-4.
std::string text_of_number(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  std::array<char, 64> buffer;
  const double size = std::abs(value);
  const bool has_exponent = size != 0 && (size >= 1e16 || size < 1e-4);
  const auto format = has_exponent ? std::chars_format::scientific : std::chars_format::fixed;
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, format).ptr;
  std::string text(buffer.data(), end);
  return has_exponent || text.find('.') != std::string::npos ? text : text + ".0";
}

/// Whether Python's repr() writes a character beyond ASCII as it is.
bool is_printable(const std::string& character) {
  static const Regex kPrintable = Regex::of_pcre2("[\\p{L}\\p{M}\\p{N}\\p{P}\\p{S}]");
  return !kPrintable.matches(character).empty();
}

std::string python_string(std::string_view text) {
  const char quote = text.find('\'') != text.npos && text.find('"') == text.npos ? '"' : '\'';
  std::string out(1, quote);
  while (!text.empty()) {
    const std::string character(text.substr(0, first_char_bytes(text)));
    const auto number = static_cast<std::uint32_t>(first_char(text));
    text.remove_prefix(character.size());
    if (number == '\n')
      out += "\\n";
    else if (number == '\r')
      out += "\\r";
    else if (number == '\t')
      out += "\\t";
    else if (character[0] == quote || number == '\\')
      out += "\\" + character;
    else if (number >= 0x20 && (number < 0x7f || (number >= 0xa0 && is_printable(character))))
      out += character;
    else
      out += number < 0x100     ? fmt::format("\\x{:02x}", number)
             : number < 0x10000 ? fmt::format("\\u{:04x}", number)
                                : fmt::format("\\U{:08x}", number);
  }
  return out + quote;
}

/// Python's repr().
std::string code_of(const JinjaValue& value, int line) {
  if (value.is_string()) return python_string(value.text());
  if (!value.is_defined()) return "Undefined";
  return text_of(value, line);
}

std::string text_of_elements(const JinjaValue& value, int line) {
  const bool is_list = value.is(Kind::list);
  std::string text = is_list ? "[" : "(";
  for (const JinjaValue& element : value.elements())
    text += (text.size() > 1 ? ", " : "") + code_of(element, line);
  if (!is_list && value.elements().size() == 1) text += ',';
  return text + (is_list ? ']' : ')');
}

std::string text_of_members(const JinjaValue& value, int line) {
  std::string text = "{";
  for (const auto& [name, member] : value.members())
    text += (text.size() > 1 ? ", " : "") + python_string(name) + ": " + code_of(member, line);
  return text + '}';
}

class JsonWriter {
 public:
  JsonWriter(const JsonStyle& style, int line) : style_(style), line_(line) {}

  void write(const JinjaValue& value, int level) {
    switch (value.kind()) {
      case Kind::none:
        out += "null";
        return;
      case Kind::boolean:
        out += value.boolean() ? "true" : "false";
        return;
      case Kind::integer:
        out += std::to_string(value.integer());
        return;
      case Kind::number:
        out += text_of_number(value.number());
        return;
      case Kind::string:
        return write_string(value.text());
      case Kind::list:
      case Kind::tuple:
        return write_list(value.elements(), level);
      case Kind::object:
        return write_object(value.members(), level);
      default:
        fail_in_line(line_, fmt::format("JSON of {} is not supported", kind_name(value)));
    }
  }

  std::string out;

 private:
  void begin_element(bool is_first, int level) {
    if (!is_first) out += style_.between;
    begin_line(level + 1);
  }
  void begin_line(int level) {
    if (!style_.indent) return;
    out += '\n';
    for (int i = 0; i < level; ++i) out += *style_.indent;
  }

  void write_list(const JinjaList& elements, int level) {
    if (elements.empty()) {
      out += "[]";
      return;
    }
    out += '[';
    for (std::size_t i = 0; i < elements.size(); ++i) {
      begin_element(i == 0, level);
      write(elements[i], level + 1);
    }
    begin_line(level);
    out += ']';
  }

  void write_object(const JinjaObject& given, int level) {
    if (given.empty()) {
      out += "{}";
      return;
    }
    JinjaObject members = given;
    if (style_.sorted) std::ranges::sort(members, {}, &JinjaObject::value_type::first);
    out += '{';
    for (std::size_t i = 0; i < members.size(); ++i) {
      begin_element(i == 0, level);
      write_string(members[i].first);
      out += style_.behind_key;
      write(members[i].second, level + 1);
    }
    begin_line(level);
    out += '}';
  }

  void write_string(std::string_view text) {
    out += '"';
    while (!text.empty()) {
      const std::string_view character = text.substr(0, first_char_bytes(text));
      write_character(first_char(text), character);
      text.remove_prefix(character.size());
    }
    out += '"';
  }

  void write_character(char32_t number, std::string_view character) {
    constexpr std::string_view kEscaped = "\"\\\n\r\t\f\b", kLetters = "\"\\nrtfb";
    const auto known = number < 0x80 ? kEscaped.find(static_cast<char>(number)) : kEscaped.npos;
    if (known != kEscaped.npos)
      (out += '\\') += kLetters[known];
    else if (number < 0x20 || (style_.ascii && number >= 0x7f && number < 0x10000))
      out += fmt::format("\\u{:04x}", static_cast<std::uint32_t>(number));
    else if (style_.ascii && number >= 0x10000)
      out += fmt::format("\\u{:04x}\\u{:04x}", 0xd7c0 + (static_cast<std::uint32_t>(number) >> 10),
                         0xdc00 + (static_cast<std::uint32_t>(number) & 0x3ff));
    else
      out += character;
  }

  const JsonStyle& style_;
  const int line_;
};

}  // namespace

std::string text_of(const JinjaValue& value, int line) {
  switch (value.kind()) {
    case Kind::undefined:
      return "";
    case Kind::none:
      return "None";
    case Kind::boolean:
      return value.boolean() ? "True" : "False";
    case Kind::integer:
      return std::to_string(value.integer());
    case Kind::number:
      return text_of_number(value.number());
    case Kind::string:
      return value.text();
    case Kind::list:
    case Kind::tuple:
      return text_of_elements(value, line);
    case Kind::object:
      return text_of_members(value, line);
    default:
      fail_in_line(line, fmt::format("writing {} is not supported", kind_name(value)));
  }
}

std::string json_text_of(const JinjaValue& value, const JsonStyle& style, int line) {
  JsonWriter writer(style, line);
  writer.write(value, 0);
  return std::move(writer.out);
}

}  // namespace troupe::stages
