#pragma once

#include <bitset>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "stages/corpus/tokenizers/models/bpe_merger.h"
#include "stages/corpus/tokenizers/models/bpe_model.h"
#include "stages/corpus/tokenizers/models/word_model.h"

namespace troupe::stages {

/// Byte pair encoding of words (Sennrich et al., arXiv 1508.07909), as Hugging Face's tokenizers do
/// it. A word is divided into units, characters or bytes, whose tokens are merged.
class Bpe final : public WordModel {
 public:
  /// What words consist of.
  enum class Units { characters, bytes };

  /// With bytes the model's tokens are spelled in GPT-2's alphabet (byte_alphabet.h).
  Bpe(const BpeModel& model, Units units);

  /// Appends the ids of a word, which is well-formed UTF-8 unless units are bytes.
  void encode(std::string_view word, Scratch& scratch,
              std::vector<std::int32_t>& ids) const override;
  bool allows_cuts() const override { return allows_cuts_; }

 private:
  /// Which characters may lie next to each other within a token. A set of hashes: it may also
  /// contain pairs that do not.
  class Neighbours {
   public:
    void add(char32_t left, char32_t right) { bits_->set(hash(left, right)); }
    bool contains(char32_t left, char32_t right) const { return bits_->test(hash(left, right)); }

   private:
    static constexpr std::size_t kNumBits = std::size_t{1} << 20;
    static std::size_t hash(char32_t left, char32_t right) {
      const std::uint64_t pair = static_cast<std::uint64_t>(left) << 32 | right;
      return static_cast<std::size_t>(pair * 0x9e3779b97f4a7c15 >> 44);
    }
    std::unique_ptr<std::bitset<kNumBits>> bits_ = std::make_unique<std::bitset<kNumBits>>();
  };

  void add_vocabulary(const BpeModel& model);
  void add_merges(const BpeModel& model);
  bool every_unit_has_tokens(const BpeModel& model) const;

  std::size_t unit_bytes(std::string_view text) const;
  char32_t first_unit(std::string_view text) const;
  char32_t last_unit(std::string_view text) const;
  std::size_t part_length(std::string_view word) const;
  void encode_anew(std::string_view part, Scratch& scratch) const;
  void add_units(std::string_view part, std::vector<std::int32_t>& ids) const;

  const Units units_;
  const std::optional<std::int32_t> unknown_;
  const bool fuse_unknown_;
  const bool ignore_merges_;
  Vocabulary vocabulary_;  ///< spelled in units
  MergeTable merges_;
  Neighbours neighbours_;
  ByteTokens byte_tokens_;
  bool divides_words_ = false;  ///< parts of a word can be encoded on their own
  bool allows_cuts_ = false;
};

}  // namespace troupe::stages
