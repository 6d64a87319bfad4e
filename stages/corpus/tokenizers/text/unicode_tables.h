#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

namespace troupe::stages {

/// Characters first ... last.
struct CharacterRange {
  char32_t first, last;
};
/// Characters of one general category, script and length in UTF-8, as a number of UnicodeTables'
/// stand-ins.
struct NewerRange {
  char32_t first, last;
  int kind;
};
/// Characters of a kind that PCRE2 knows, in different places.
using StandIns = std::array<char32_t, 8>;
/// Characters whose lower case is `added` further on.
struct LowercaseRange {
  char32_t first, last;
  std::int32_t added;
};

/// Where Hugging Face's tokenizers, whose parts have tables of different versions of Unicode, count
/// characters otherwise than PCRE2 and utf8proc of Debian 12. Ranges are in ascending order.
struct UnicodeTables {
  /// Characters of another general category than in PCRE2, which knows Unicode 14; and what to use
  /// instead of them.
  std::span<const NewerRange> newer;
  std::span<const StandIns> stand_ins;
  std::span<const CharacterRange> punctuation;  ///< the pre-tokenizers Punctuation and Bert
  std::span<const CharacterRange> cleaned;      ///< taken away by BertNormalizer's clean_text
  std::span<const CharacterRange> marks;        ///< by StripAccents
  std::span<const CharacterRange> bert_marks;   ///< by BertNormalizer's strip_accents
  /// To the normal forms these are characters that nothing is known of, other than to utf8proc.
  std::span<const CharacterRange> unlike;
  std::span<const LowercaseRange> lowercase;  ///< what utf8proc has no lower case for
};
const UnicodeTables& unicode_tables();

/// The range that has a character; null if none has.
template <typename Range>
const Range* find_range(std::span<const Range> ranges, char32_t character) {
  const auto found = std::ranges::lower_bound(ranges, character, {}, &Range::last);
  return found != ranges.end() && found->first <= character ? &*found : nullptr;
}

}  // namespace troupe::stages
