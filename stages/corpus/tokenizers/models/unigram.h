#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "stages/corpus/tokenizers/models/vocabulary.h"
#include "stages/corpus/tokenizers/models/word_model.h"
#include "stages/corpus/tokenizers/text/json_part.h"

namespace troupe::stages {

/// The unigram language model (Kudo, arXiv 1804.10959), as Hugging Face's tokenizers have it: of
/// all divisions of a word into tokens that with the largest sum of scores.
class Unigram final : public WordModel {
 public:
  /// Reads the model of a tokenizer.json. Throws Error{data} with the place of what is wrong.
  explicit Unigram(const JsonPart& part);

  const Vocabulary& vocabulary() const { return vocabulary_; }
  void encode(std::string_view word, Scratch& scratch,
              std::vector<std::int32_t>& ids) const override;

 private:
  /// The best division of a beginning of the word, by its last token.
  struct Best {
    double score = 0.0;
    std::size_t begin = kNowhere;
    std::int32_t id = 0;
  };
  static constexpr std::size_t kNowhere = SIZE_MAX;
  static constexpr std::int32_t kRoot = 0;

  void read_vocabulary(const JsonPart& part);
  void add_to_tree(std::string_view token, std::int32_t id);
  std::vector<Best> best_divisions(std::string_view word) const;
  void add_tokens_at(std::string_view word, std::size_t begin, std::vector<Best>& best) const;
  void add_token(std::string_view token, std::vector<std::int32_t>& ids) const;

  Vocabulary vocabulary_;
  std::vector<double> scores_;           ///< by id
  std::optional<std::int32_t> unknown_;  ///< for characters that no token has
  double unknown_score_ = 0.0;
  std::optional<ByteTokens> byte_tokens_;
  /// The tree of all tokens: the node that a byte leads to, and the tokens that end in nodes.
  std::unordered_map<std::uint64_t, std::int32_t> children_;
  std::vector<std::int32_t> token_of_node_;
};

}  // namespace troupe::stages
