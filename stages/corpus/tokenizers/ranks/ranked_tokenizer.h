#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "stages/corpus/tokenizers/added_tokens.h"
#include "stages/corpus/tokenizers/tokenizer.h"
#include "stages/corpus/tokenizers/tokenizer_config.h"

namespace troupe::stages {

/// What files with the ranks of tokens hold.
struct RankedTokens {
  std::vector<std::string> tokens = {};  ///< bytes, in the order of their ranks
  std::int32_t first_id = 0;             ///< of the token of rank 0
  std::vector<AddedToken> special = {};  ///< with ids that none of these has
  std::string pattern = {};              ///< whose matches are the words of a text
};

/// A tokenizer of byte-level tokens. Of the special tokens those are found in a text that files
/// beside it name; and those files say which are around a text. Throws Error{data}, beginning with
/// `place`, for what is wrong.
std::unique_ptr<Tokenizer> make_ranked_tokenizer(const RankedTokens& ranked,
                                                 const TokenizerConfig& beside,
                                                 const std::string& place);

}  // namespace troupe::stages
