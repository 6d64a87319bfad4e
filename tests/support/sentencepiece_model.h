#pragma once

#include <cstdint>
#include <cstring>
#include <string>

namespace troupe::test {

// A SentencePiece .model (a ModelProto in protobuf's wire format) with the 26 letters, a few words
// and no training.

inline std::string wire_bytes(int field, const std::string& bytes) {
  std::string out(1, static_cast<char>(field << 3 | 2));
  std::size_t length = bytes.size();
  for (; length >= 0x80; length >>= 7) out += static_cast<char>(length | 0x80);
  return out + static_cast<char>(length) + bytes;
}

inline std::string wire_number(int field, char value) {
  return {static_cast<char>(field << 3), value};
}

/// One piece of the vocabulary. `type` is 1 normal, 2 unknown, 3 control, 6 byte.
inline std::string wire_piece(const std::string& text, float score, char type) {
  std::string number(4, '\0');
  std::memcpy(number.data(), &score, sizeof score);
  return wire_bytes(
      1, wire_bytes(1, text) + static_cast<char>(2 << 3 | 5) + number + wire_number(3, type));
}

/// A unigram model over plain text without normalization. `extra_pieces` unused pieces make its
/// vocabulary larger; `dummy_prefix` puts a space before every text, as Llama's does.
inline std::string sentencepiece_model(int extra_pieces = 0, bool dummy_prefix = false) {
  std::string model =
      wire_piece("<unk>", 0, 2) + wire_piece("<s>", 0, 3) + wire_piece("</s>", 0, 3);
  for (const char* word : {"the", "cat",
                           "\xe2\x96\x81"
                           "sat",
                           "\xe2\x96\x81", "\n"})
    model += wire_piece(word, -1, 1);
  for (char letter = 'a'; letter <= 'z'; ++letter)
    model += wire_piece(std::string(1, letter), -5, 1);
  for (int i = 0; i < extra_pieces; ++i) model += wire_piece("extra#" + std::to_string(i), -9, 1);
  const std::string trainer = wire_number(3, 1);
  const std::string normalizer = wire_bytes(1, "identity") + wire_number(3, dummy_prefix ? 1 : 0) +
                                 wire_number(4, 0) + wire_number(5, 1);
  return model + wire_bytes(2, trainer) + wire_bytes(3, normalizer);
}

}  // namespace troupe::test
