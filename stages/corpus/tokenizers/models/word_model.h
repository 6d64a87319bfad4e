#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "stages/corpus/tokenizers/models/bpe_merger.h"
#include "stages/corpus/tokenizers/models/word_cache.h"

namespace troupe::stages {

/// What gives words their ids, one by one: the member "model" of a tokenizer.json. Const calls may
/// run in any thread, each with a scratch of its own.
class WordModel {
 public:
  /// What a thread keeps between words.
  struct Scratch {
    WordCache cache;
    BpeMerger merger;
    std::vector<std::int32_t> ids;
  };

  virtual ~WordModel() = default;
  /// Appends the ids of a word. Throws Error{data} for a character that the model has no token for.
  virtual void encode(std::string_view word, Scratch& scratch,
                      std::vector<std::int32_t>& ids) const = 0;
  /// Whether a word that is cut behind a newline, before another character, has the same ids.
  virtual bool allows_cuts() const { return false; }

 protected:
  /// Appends the ids of a word from the cache; `encode_anew` makes them in the scratch's `ids`, if
  /// they are not there.
  template <typename EncodeAnew>
  static void encode_cached(std::string_view word, Scratch& scratch, std::vector<std::int32_t>& ids,
                            const EncodeAnew& encode_anew) {
    const bool cached = word.size() <= WordCache::kLongestWord;
    if (cached) {
      if (const auto known = scratch.cache.find(word)) {
        ids.insert(ids.end(), known->begin(), known->end());
        return;
      }
    }
    scratch.ids.clear();
    encode_anew();
    if (cached) scratch.cache.insert(word, scratch.ids);
    ids.insert(ids.end(), scratch.ids.begin(), scratch.ids.end());
  }
};

}  // namespace troupe::stages
