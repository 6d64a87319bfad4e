#include "stages/corpus/tokenizers/models/word_piece.h"

#include <algorithm>

#include "stages/corpus/tokenizers/text/utf8.h"

namespace troupe::stages {
namespace {

std::int64_t count_chars(std::string_view text) {
  return std::ranges::count_if(text, [](char byte) { return (byte & 0xc0) != 0x80; });
}

}  // namespace

WordPiece::WordPiece(const JsonPart& part)
    : vocabulary_(read_vocabulary(part.at("vocab"))),
      prefix_(part.text("continuing_subword_prefix", "##")) {
  const auto unknown = read_token(part, "unk_token", vocabulary_);
  if (!unknown) part.fail("\"unk_token\" is missing");
  unknown_ = *unknown;
  const auto most = part.find("max_input_chars_per_word");
  most_chars_ = most ? most->integer() : 100;
  for (const auto& [token, id] : vocabulary_) longest_ = std::max(longest_, token.size());
}

void WordPiece::encode(std::string_view word, Scratch& scratch,
                       std::vector<std::int32_t>& ids) const {
  encode_cached(word, scratch, ids, [&] {
    if (count_chars(word) > most_chars_ || !add_tokens(word, scratch.ids)) scratch.ids = {unknown_};
  });
}

/// False if no token begins a rest of the word.
bool WordPiece::add_tokens(std::string_view word, std::vector<std::int32_t>& ids) const {
  std::string piece;
  for (bool begins = true; !word.empty(); begins = false) {
    const std::size_t prefix = begins ? 0 : prefix_.size();
    piece.assign(prefix_, 0, prefix);
    piece += word.substr(0, longest_);
    auto found = vocabulary_.find(piece);
    while (found == vocabulary_.end() && piece.size() > prefix) {
      piece.resize(piece.size() - last_char_bytes(piece));
      if (piece.size() > prefix) found = vocabulary_.find(piece);
    }
    if (found == vocabulary_.end()) return false;
    ids.push_back(found->second);
    word.remove_prefix(piece.size() - prefix);
  }
  return true;
}

}  // namespace troupe::stages
