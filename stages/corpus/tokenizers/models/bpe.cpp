#include "stages/corpus/tokenizers/models/bpe.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "stages/corpus/tokenizers/text/byte_alphabet.h"
#include "stages/corpus/tokenizers/text/utf8.h"

namespace troupe::stages {

Bpe::Bpe(const BpeModel& model, Units units)
    : units_(units),
      unknown_(model.unknown),
      fuse_unknown_(model.fuse_unknown),
      ignore_merges_(model.ignore_merges) {
  add_vocabulary(model);
  add_merges(model);
  if (model.byte_fallback) byte_tokens_ = byte_tokens_of(model.vocabulary);
  divides_words_ = !ignore_merges_ && every_unit_has_tokens(model);
  allows_cuts_ = divides_words_ && std::ranges::none_of(vocabulary_, [](const auto& entry) {
                   const std::size_t newline = entry.first.find('\n');
                   return newline != std::string::npos && newline + 1 < entry.first.size();
                 });
}

void Bpe::add_vocabulary(const BpeModel& model) {
  if (units_ == Units::characters) {
    vocabulary_ = model.vocabulary;
    return;
  }
  vocabulary_.reserve(model.vocabulary.size());
  for (const auto& [token, id] : model.vocabulary)
    if (auto bytes = bytes_of_letters(token)) vocabulary_.emplace(std::move(*bytes), id);
}

void Bpe::add_merges(const BpeModel& model) {
  std::unordered_map<std::int32_t, std::string_view> spelling;
  spelling.reserve(vocabulary_.size());
  for (const auto& [token, id] : vocabulary_) spelling.emplace(id, token);
  merges_.reserve(model.merges.size());
  std::int32_t rank = 0;
  for (const auto& [left, right, result] : model.merges) {
    merges_.add(left, right, {.rank = model.ranks_are_ids ? result : rank++, .id = result});
    const auto before = spelling.find(left), after = spelling.find(right);
    if (before != spelling.end() && after != spelling.end())
      neighbours_.add(last_unit(before->second), first_unit(after->second));
  }
}

// Parts of a word are independent where no token spans the place between them. Without a token for
// every unit that is not so: unknown units are left out, joined, or moved behind others.
bool Bpe::every_unit_has_tokens(const BpeModel& model) const {
  if (units_ == Units::bytes) {
    for (unsigned byte = 0; byte < 256; ++byte)
      if (!vocabulary_.contains(std::string(1, static_cast<char>(byte)))) return false;
    return true;
  }
  const auto is_byte_token = [this](std::int32_t id) {
    return std::ranges::find(byte_tokens_, id) != byte_tokens_.end();
  };
  return std::ranges::all_of(byte_tokens_, [](const auto& token) { return token.has_value(); }) &&
         std::ranges::none_of(model.merges, [&](const BpeModel::Merge& merge) {
           return is_byte_token(merge.left) || is_byte_token(merge.right);
         });
}

std::size_t Bpe::unit_bytes(std::string_view text) const {
  return units_ == Units::bytes ? 1 : first_char_bytes(text);
}

char32_t Bpe::first_unit(std::string_view text) const {
  return units_ == Units::bytes ? static_cast<unsigned char>(text.front()) : first_char(text);
}

char32_t Bpe::last_unit(std::string_view text) const {
  return units_ == Units::bytes ? static_cast<unsigned char>(text.back()) : last_char(text);
}

void Bpe::encode(std::string_view word, Scratch& scratch, std::vector<std::int32_t>& ids) const {
  const auto encode_part = [&](std::string_view part) {
    encode_cached(part, scratch, ids, [&] { encode_anew(part, scratch); });
  };
  if (!divides_words_ || word.size() <= WordCache::kLongestWord) return encode_part(word);
  while (!word.empty()) {
    const std::size_t length = part_length(word);
    encode_part(word.substr(0, length));
    word.remove_prefix(length);
  }
}

/// Bytes of the first part of a word that no token connects with the rest.
std::size_t Bpe::part_length(std::string_view word) const {
  char32_t before = first_unit(word);
  std::size_t length = unit_bytes(word);
  while (length < word.size()) {
    const std::string_view rest = word.substr(length);
    const char32_t unit = first_unit(rest);
    if (!neighbours_.contains(before, unit)) break;
    before = unit;
    length += unit_bytes(rest);
  }
  return length;
}

void Bpe::encode_anew(std::string_view part, Scratch& scratch) const {
  if (ignore_merges_) {
    if (const auto token = vocabulary_.find(part); token != vocabulary_.end()) {
      scratch.ids.push_back(token->second);
      return;
    }
  }
  add_units(part, scratch.ids);
  scratch.merger.merge(scratch.ids, merges_);
}

/// Appends the tokens of single units. As in tokenizers, the unknown token is held back until a
/// unit follows that is in the vocabulary, and so behind byte tokens.
void Bpe::add_units(std::string_view part, std::vector<std::int32_t>& ids) const {
  bool held_back = false;
  const auto release = [&] {
    if (std::exchange(held_back, false)) ids.push_back(*unknown_);
  };
  while (!part.empty()) {
    const std::string_view unit = part.substr(0, unit_bytes(part));
    part.remove_prefix(unit.size());
    if (const auto token = vocabulary_.find(unit); token != vocabulary_.end()) {
      release();
      ids.push_back(token->second);
    } else if (!add_byte_tokens(unit, byte_tokens_, ids) && unknown_) {
      if (!fuse_unknown_) release();
      held_back = true;
    }
  }
  release();
}

}  // namespace troupe::stages
