#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace troupe::stages {

/// Bytes [begin, end) of a text.
struct ByteRange {
  std::size_t begin = 0;
  std::size_t end = 0;
};

/// Makes bytes well-formed UTF-8: every maximal invalid part of `bytes` becomes one U+FFFD (Unicode
/// Standard section 3.9, "substitution of maximal subparts"), as Python's and Hugging Face's
/// decoders do. utf8-cpp's replace_invalid() puts one for a whole run of continuation bytes.
std::string valid_utf8(std::string_view bytes);
bool is_valid_utf8(std::string_view bytes);

struct Utf8Count {
  std::int64_t invalid = 0;       ///< parts that valid_utf8() replaces
  std::int64_t wide = 0;          ///< valid characters of several bytes
  std::size_t first_invalid = 0;  ///< byte at which the first invalid part begins, if there is one
};
Utf8Count count_utf8(std::string_view bytes);

/// Bytes at the end of `text` that begin a character but do not finish it: 0 to 3.
std::size_t incomplete_tail(std::string_view text);

// Characters of well-formed UTF-8 that is not empty.
char32_t first_char(std::string_view text);
std::size_t first_char_bytes(std::string_view text);
char32_t last_char(std::string_view text);
std::size_t last_char_bytes(std::string_view text);

std::string utf8_of(char32_t character);

// A text of well-formed UTF-8 without the characters at its begin, or its end, for which
// is_left_out(character) holds.
template <typename Condition>
std::string_view without_front(std::string_view text, const Condition& is_left_out) {
  while (!text.empty() && is_left_out(first_char(text))) text.remove_prefix(first_char_bytes(text));
  return text;
}
template <typename Condition>
std::string_view without_back(std::string_view text, const Condition& is_left_out) {
  while (!text.empty() && is_left_out(last_char(text))) text.remove_suffix(last_char_bytes(text));
  return text;
}

/// Unicode's property White_Space, which has not changed since version 6.3.
bool is_white_space(char32_t character);

}  // namespace troupe::stages
