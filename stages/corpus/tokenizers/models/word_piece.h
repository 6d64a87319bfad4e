#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "stages/corpus/tokenizers/models/vocabulary.h"
#include "stages/corpus/tokenizers/models/word_model.h"
#include "stages/corpus/tokenizers/text/json_part.h"

namespace troupe::stages {

/// BERT's WordPiece, as Hugging Face's tokenizers have it: the longest token at the beginning of
/// what is left of a word. A word that leaves a rest is unknown as a whole.
class WordPiece final : public WordModel {
 public:
  /// Reads the model of a tokenizer.json. Throws Error{data} with the place of what is wrong.
  explicit WordPiece(const JsonPart& part);

  const Vocabulary& vocabulary() const { return vocabulary_; }
  void encode(std::string_view word, Scratch& scratch,
              std::vector<std::int32_t>& ids) const override;

 private:
  bool add_tokens(std::string_view word, std::vector<std::int32_t>& ids) const;

  Vocabulary vocabulary_;
  std::int32_t unknown_ = 0;
  std::string prefix_;           ///< of tokens that do not begin a word
  std::int64_t most_chars_ = 0;  ///< a word of more is unknown
  std::size_t longest_ = 0;      ///< bytes of a token
};

}  // namespace troupe::stages
