#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "stages/corpus/tokenizers/models/vocabulary.h"
#include "stages/corpus/tokenizers/text/json_part.h"
#include "stages/corpus/tokenizers/text/text_hash.h"

namespace troupe::stages {

/// The member "model" of a tokenizer.json of the type BPE.
struct BpeModel {
  struct Merge {
    std::int32_t left = 0;
    std::int32_t right = 0;
    std::int32_t result = 0;
  };
  Vocabulary vocabulary;                ///< tokens as the file spells them
  std::vector<Merge> merges;            ///< the first has the lowest rank, unless ranks_are_ids
  std::optional<std::int32_t> unknown;  ///< the token for characters that are not in the vocabulary
  bool fuse_unknown = false;            ///< unknown characters side by side are one token
  bool byte_fallback = false;  ///< bytes of unknown characters are the tokens <0x00> ... <0xFF>
  bool ignore_merges = false;  ///< a word that is a token as a whole becomes it
  bool ranks_are_ids = false;  ///< the rank of a merge is the id of its result
};

/// Reads and checks the model. Throws Error{data} with the place of what is wrong, and the name of
/// a merged token that is not in the vocabulary.
BpeModel read_bpe_model(const JsonPart& part);

}  // namespace troupe::stages
