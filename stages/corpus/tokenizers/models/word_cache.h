#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "stages/corpus/tokenizers/text/text_hash.h"

namespace troupe::stages {

/// The ids of words that were encoded lately. Text repeats its words, so that most are found here.
/// Used by one thread at a time.
class WordCache {
 public:
  /// Bytes of the longest word that is worth a place.
  static constexpr std::size_t kLongestWord = 64;
  /// Number of words after which the cache begins anew. It bounds memory to a few megabytes.
  static constexpr std::size_t kMostWords = std::size_t{1} << 16;

  /// The ids of a word, valid until the next insert.
  std::optional<std::span<const std::int32_t>> find(std::string_view word) const {
    const auto found = places_.find(word);
    if (found == places_.end()) return std::nullopt;
    return std::span(ids_).subspan(found->second.begin, found->second.count);
  }

  void insert(std::string_view word, std::span<const std::int32_t> ids) {
    if (places_.size() == kMostWords) {
      places_.clear();
      ids_.clear();
    }
    places_.emplace(word, Span{.begin = ids_.size(), .count = ids.size()});
    ids_.insert(ids_.end(), ids.begin(), ids.end());
  }

 private:
  struct Span {
    std::size_t begin = 0;
    std::size_t count = 0;
  };
  TextMap<Span> places_;
  std::vector<std::int32_t> ids_;
};

}  // namespace troupe::stages
