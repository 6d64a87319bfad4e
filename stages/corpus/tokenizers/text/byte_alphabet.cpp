#include "stages/corpus/tokenizers/text/byte_alphabet.h"

#include <array>

#include "stages/corpus/tokenizers/text/utf8.h"

namespace troupe::stages {
namespace {

/// First character of the bytes that are not visible; there are 68.
constexpr char32_t kFirstOther = 0x100;
constexpr std::size_t kNumOthers = 68;

constexpr bool visible(unsigned byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte != 0xad);
}

constexpr std::array<unsigned char, kNumOthers> others() {
  std::array<unsigned char, kNumOthers> bytes{};
  std::size_t next = 0;
  for (unsigned byte = 0; byte < 256; ++byte)
    if (!visible(byte)) bytes[next++] = static_cast<unsigned char>(byte);
  return bytes;
}
constexpr std::array<unsigned char, kNumOthers> kOthers = others();

std::optional<char> byte_of(char32_t letter) {
  if (letter < kFirstOther && visible(letter)) return static_cast<char>(letter);
  if (letter >= kFirstOther && letter < kFirstOther + kNumOthers)
    return static_cast<char>(kOthers[letter - kFirstOther]);
  return std::nullopt;
}

}  // namespace

std::string letter_of_byte(unsigned char byte) {
  if (visible(byte)) return utf8_of(byte);
  char32_t letter = kFirstOther;
  while (kOthers[letter - kFirstOther] != byte) ++letter;
  return utf8_of(letter);
}

std::optional<std::string> bytes_of_letters(std::string_view token) {
  std::string bytes;
  while (!token.empty()) {
    const auto byte = byte_of(first_char(token));
    if (!byte) return std::nullopt;
    bytes += *byte;
    token.remove_prefix(first_char_bytes(token));
  }
  return bytes;
}

}  // namespace troupe::stages
