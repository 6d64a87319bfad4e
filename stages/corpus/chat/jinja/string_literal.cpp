#include <fmt/format.h>

#include <charconv>

#include "stages/corpus/chat/jinja/jinja_lexer.h"
#include "stages/corpus/tokenizers/text/utf8.h"

namespace troupe::stages {
namespace {

/// Escapes of one letter, and the characters that they stand for.
constexpr std::string_view kLetters = "abfnrtv\\'\"";
constexpr std::string_view kCharacters = "\a\b\f\n\r\t\v\\'\"";

/// Digits of an escape by the number of a character; 0 for other letters.
std::size_t digits_of(char letter) {
  return letter == 'x' ? 2 : letter == 'u' ? 4 : letter == 'U' ? 8 : 0;
}

std::string character_of(std::string_view digits, int line) {
  std::uint32_t number = 0;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), number, 16);
  const bool is_surrogate = number >= 0xd800 && number < 0xe000;
  if (error != std::errc() || end != digits.data() + digits.size() || number > 0x10ffff ||
      is_surrogate)
    fail_in_line(line, fmt::format("the escape of {} is no character's number", digits));
  return utf8_of(static_cast<char32_t>(number));
}

}  // namespace

std::string unescaped(std::string_view literal, int line) {
  std::string text;
  for (std::size_t i = 0; i < literal.size(); ++i) {
    if (literal[i] != '\\') {
      text += literal[i];
      continue;
    }
    const char letter = literal[++i];  // a literal does not end with a backslash alone
    if (const auto known = kLetters.find(letter); known != kLetters.npos) {
      text += kCharacters[known];
    } else if (const std::size_t digits = digits_of(letter); digits > 0) {
      if (literal.size() - i - 1 < digits) fail_in_line(line, "an escape in a string is cut off");
      text += character_of(literal.substr(i + 1, digits), line);
      i += digits;
    } else if (letter == 'N' || (letter >= '0' && letter <= '7')) {
      fail_in_line(line, fmt::format("the escape \\{} in a string is not supported", letter));
    } else if (letter != '\n') {  // a backslash at a line's end joins it to the next
      text += '\\';
      text += letter;
    }
  }
  return text;
}

}  // namespace troupe::stages
