#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "stages/corpus/tokenizers/added_tokens.h"
#include "stages/corpus/tokenizers/tokenizer.h"
#include "stages/corpus/tokenizers/tokenizer_config.h"

namespace troupe::stages {

/// A token that a file beside a tokenizer names. One that the tokenizer has gets these properties.
struct TokenBeside {
  AddedToken token;                ///< its id is not set
  std::optional<std::int64_t> id;  ///< the id that the file says it has
  std::string place;               ///< file and member, for messages
};

/// The tokens in the order in which transformers' AutoTokenizer (5.24) adds them: those of
/// "added_tokens_decoder", or else of added_tokens.json and of the tokenizer's `own` file, where
/// one that has a name is special; then special tokens that none of these files has, by a name, as
/// "eos_token" or any other "..._token", or of the list "extra_special_tokens". Throws Error{data}
/// naming the file and member that is none of this.
std::vector<TokenBeside> tokens_beside(const TokenizerConfig& config,
                                       const std::vector<AddedToken>& own);

/// A tokenizer's added tokens that are found in a text: all, but with "split_special_tokens" only
/// those that are not special.
std::vector<AddedToken> found_in_text(std::vector<AddedToken> tokens,
                                      const TokenizerConfig& config);

/// How many ids from `first` on have tokens that files beside the tokenizer name. Models often have
/// no row for such a token, as for one that only pads.
std::int64_t count_named_from(const Tokenizer& tokenizer, std::int64_t first);

/// Reads the properties of a token from an object: content, single_word, lstrip, rstrip,
/// normalized, special. A token that is not said to be normalized is so unless it is special.
AddedToken read_added_token(const JsonPart& part);

}  // namespace troupe::stages
