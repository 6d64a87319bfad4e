#include "stages/corpus/tokenizers/text/newer_characters.h"

#include <fmt/format.h>

#include <bitset>

#include "stages/corpus/tokenizers/text/utf8.h"
#include "tensor/errors/error.h"

namespace troupe::stages {
namespace {

/// The lead byte of the first character that is newer, and all that are above.
constexpr unsigned char kFirstLead = 0xe0;
constexpr int kBlockBits = 8;
using Blocks = std::bitset<(0x110000 >> kBlockBits)>;

/// The blocks of 256 characters in which there are newer ones.
Blocks blocks_with_newer() {
  Blocks blocks;
  for (const NewerRange& range : unicode_tables().newer)
    for (char32_t block = range.first >> kBlockBits; block <= range.last >> kBlockBits; ++block)
      blocks.set(block);
  return blocks;
}

/// Whether a pattern that names these characters treats a newer range and a stand-in alike.
bool alike(std::span<const CharacterRange> named, const NewerRange& range, char32_t stand_in) {
  return std::ranges::all_of(named, [&](const CharacterRange& one) {
    const bool has = one.first <= stand_in && stand_in <= one.last;
    return has ? one.first <= range.first && range.last <= one.last
               : range.last < one.first || one.last < range.first;
  });
}

}  // namespace

NewerCharacters::NewerCharacters(std::span<const CharacterRange> named) {
  const UnicodeTables& tables = unicode_tables();
  for (const NewerRange& range : tables.newer) {
    const StandIns& choice = tables.stand_ins[static_cast<std::size_t>(range.kind)];
    const auto* const found = std::ranges::find_if(
        choice, [&](char32_t stand_in) { return alike(named, range, stand_in); });
    if (found == choice.end())
      throw Error(ErrorKind::data,
                  fmt::format("a range in it tells U+{:04X} from characters like it, which are "
                              "newer than the tables of PCRE2",
                              static_cast<std::uint32_t>(range.first)));
    stand_ins_.push_back(*found);
  }
}

std::optional<std::string> NewerCharacters::replaced(std::string_view text) const {
  static const Blocks kBlocks = blocks_with_newer();
  const std::span<const NewerRange> newer = unicode_tables().newer;
  std::optional<std::string> result;
  for (std::size_t at = 0; at < text.size();) {
    if (static_cast<unsigned char>(text[at]) < kFirstLead) {
      ++at;
      continue;
    }
    const std::string_view rest = text.substr(at);
    const char32_t character = first_char(rest);
    const std::size_t bytes = first_char_bytes(rest);
    if (kBlocks.test(character >> kBlockBits)) {
      if (const NewerRange* range = find_range(newer, character)) {
        if (!result) result.emplace(text);
        result->replace(at, bytes,
                        utf8_of(stand_ins_[static_cast<std::size_t>(range - newer.data())]));
      }
    }
    at += bytes;
  }
  return result;
}

}  // namespace troupe::stages
