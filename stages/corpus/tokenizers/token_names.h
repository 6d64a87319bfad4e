#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "stages/corpus/tokenizers/added_tokens.h"
#include "stages/corpus/tokenizers/text/json_part.h"
#include "stages/corpus/tokenizers/text/text_hash.h"
#include "stages/corpus/tokenizers/tokens_beside.h"

namespace troupe::stages {

/// All tokens of a tokenizer, those of its model and those added, by name and by id.
class TokenNames {
 public:
  /// Reads the added tokens ("added_tokens", a list). Throws Error{data} for one whose id is not
  /// the one that tokenizers gives it: that of the same token in the model, or else the next after
  /// all others.
  TokenNames(const Vocabulary& model, const std::optional<JsonPart>& added);
  /// Adds tokens that are named beside the tokenizer by the same rule, or gives those that it has
  /// their properties. Throws Error{data} for one that would not have the id that its file says.
  void add(const std::vector<TokenBeside>& tokens);

  /// Gives a token an id of its own, which the model's tokens do not have. Of two tokens of the
  /// same name, the first is found by it.
  void put(AddedToken token) { insert(std::move(token)); }

  /// The largest id, plus 1.
  int vocab_size() const { return static_cast<int>(tokens_.size()); }
  std::optional<std::int32_t> id_of(std::string_view name) const;
  /// The name of an id below vocab_size(); empty if no token has it.
  const std::string& name_of(std::int32_t id) const {
    return tokens_[static_cast<std::size_t>(id)].name;
  }
  bool is_special(std::int32_t id) const { return tokens_[static_cast<std::size_t>(id)].special; }
  /// The added tokens, special ones first.
  const std::vector<AddedToken>& added() const { return added_; }

 private:
  struct Token {
    std::string name;
    bool added = false;
    bool special = false;
  };
  Token& token_at(std::int32_t id);
  void add_own(const JsonPart& part);
  /// The id that tokenizers gives a token.
  std::int32_t id_for(const std::string& content) const;
  void insert(AddedToken token);

  Vocabulary ids_;
  std::int32_t next_id_;       ///< of a token that is not known yet
  std::vector<Token> tokens_;  ///< by id
  std::vector<AddedToken> added_;
};

}  // namespace troupe::stages
