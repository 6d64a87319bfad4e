#include "stages/corpus/tokenizers/text/utf8.h"

#include <utf8.h>

#include <algorithm>

namespace troupe::stages {
namespace {

struct Span {
  std::size_t bytes = 1;  ///< of the character if valid, else of the maximal invalid part
  bool valid = false;
  bool cut = false;  ///< invalid only because the text ends
};

/// The bytes that may follow a first byte (Unicode Standard, table 3-7).
struct Lead {
  std::size_t length;
  unsigned char low, high;  ///< range of the second byte
};

Lead lead_of(unsigned char first) {
  if (first < 0x80) return {1, 0, 0};
  if (first >= 0xc2 && first <= 0xdf) return {2, 0x80, 0xbf};
  if (first == 0xe0) return {3, 0xa0, 0xbf};
  if (first == 0xed) return {3, 0x80, 0x9f};
  if (first >= 0xe1 && first <= 0xef) return {3, 0x80, 0xbf};
  if (first == 0xf0) return {4, 0x90, 0xbf};
  if (first >= 0xf1 && first <= 0xf3) return {4, 0x80, 0xbf};
  if (first == 0xf4) return {4, 0x80, 0x8f};
  return {0, 0, 0};
}

Span first_part(std::string_view text) {
  const Lead lead = lead_of(static_cast<unsigned char>(text[0]));
  if (lead.length == 0) return {};
  unsigned char low = lead.low, high = lead.high;
  for (std::size_t i = 1; i < lead.length; ++i) {
    if (i == text.size()) return {.bytes = i, .cut = true};
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte < low || byte > high) return {.bytes = i};
    low = 0x80, high = 0xbf;
  }
  return {.bytes = lead.length, .valid = true};
}

}  // namespace

std::string valid_utf8(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size());
  while (!bytes.empty()) {
    const Span part = first_part(bytes);
    text += part.valid ? bytes.substr(0, part.bytes) : "\xef\xbf\xbd";
    bytes.remove_prefix(part.bytes);
  }
  return text;
}

bool is_valid_utf8(std::string_view bytes) {
  return utf8::is_valid(bytes.begin(), bytes.end());
}

Utf8Count count_utf8(std::string_view bytes) {
  Utf8Count count;
  for (std::size_t at = 0; at < bytes.size();) {
    const Span part = first_part(bytes.substr(at));
    if (!part.valid && count.invalid++ == 0) count.first_invalid = at;
    if (part.valid && part.bytes > 1) ++count.wide;
    at += part.bytes;
  }
  return count;
}

std::size_t incomplete_tail(std::string_view text) {
  const std::size_t longest = std::min<std::size_t>(3, text.size());
  for (std::size_t tail = 1; tail <= longest; ++tail) {
    const Span part = first_part(text.substr(text.size() - tail));
    if (part.cut && part.bytes == tail) return tail;
  }
  return 0;
}

char32_t first_char(std::string_view text) {
  const char* begin = text.data();
  return static_cast<char32_t>(utf8::unchecked::peek_next(begin));
}

std::size_t first_char_bytes(std::string_view text) {
  return lead_of(static_cast<unsigned char>(text[0])).length;
}

char32_t last_char(std::string_view text) {
  return first_char(text.substr(text.size() - last_char_bytes(text)));
}

std::size_t last_char_bytes(std::string_view text) {
  std::size_t bytes = 1;
  while (bytes < text.size() && (text[text.size() - bytes] & 0xc0) == 0x80) ++bytes;
  return bytes;
}

std::string utf8_of(char32_t character) {
  std::string text;
  utf8::append(character, text);
  return text;
}

bool is_white_space(char32_t c) {
  return (c >= 0x9 && c <= 0xd) || c == 0x20 || c == 0x85 || c == 0xa0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f ||
         c == 0x3000;
}

}  // namespace troupe::stages
