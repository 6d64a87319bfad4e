#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "stages/corpus/tokenizers/added_tokens.h"
#include "stages/corpus/tokenizers/decoder.h"
#include "stages/corpus/tokenizers/models/word_model.h"
#include "stages/corpus/tokenizers/normalizer.h"
#include "stages/corpus/tokenizers/text/pre_tokenizer.h"
#include "stages/corpus/tokenizers/token_names.h"
#include "stages/corpus/tokenizers/tokenizer.h"

namespace troupe::stages {

/// What makes a tokenizer that divides texts into words, which a model encodes one by one.
struct TokenizerParts {
  TokenNames names;
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  std::unique_ptr<WordModel> model;
  std::vector<AddedToken> found;  ///< tokens that are found in a text before it is normalized
  Tokenizer::Frame frame;
  Decoder decoder;
  std::string note = {};  ///< Tokenizer::note()
};

class WordTokenizer final : public Tokenizer {
 public:
  explicit WordTokenizer(TokenizerParts parts);

  int vocab_size() const override { return parts_.names.vocab_size(); }
  std::optional<std::int32_t> id_of(std::string_view token) const override {
    return parts_.names.id_of(token);
  }
  std::string name_of(std::int32_t id) const override { return parts_.names.name_of(id); }
  std::vector<std::int32_t> encode(std::string_view text, Place place) const override;
  Cuts cuts() const override;
  Frame frame() const override { return parts_.frame; }
  std::string decode(std::span<const std::int32_t> ids) const override;
  std::string note() const override { return parts_.note; }

 private:
  using Origin = Word::Origin;
  using Scratch = WordModel::Scratch;

  /// Scratches that no call uses at the moment. A call takes one or makes one, so that there are as
  /// many as threads encode at the same time.
  class Scratches {
   public:
    std::unique_ptr<Scratch> take();
    void give_back(std::unique_ptr<Scratch> scratch);

   private:
    std::mutex mutex_;
    std::vector<std::unique_ptr<Scratch>> free_;
  };

  void encode_section(std::string_view text, Origin origin, Scratch& scratch,
                      std::vector<std::int32_t>& ids) const;
  void encode_words(Words words, Scratch& scratch, std::vector<std::int32_t>& ids) const;
  bool may_cut_at_newlines() const;
  bool may_cut_at_words() const;
  std::size_t last_word_in(std::string_view text) const;
  std::size_t at_word(std::size_t begin, std::string_view section, std::size_t word) const;
  std::size_t last_part_of(std::string_view text) const;
  std::size_t last_word_in_section(std::string_view text) const;

  TokenizerParts parts_;
  AddedTokens added_;
  mutable Scratches scratches_;
};

}  // namespace troupe::stages
