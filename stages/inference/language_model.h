#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace troupe::stages {

/// The next tokens of a batch of sequences, by a model with a cache of keys and values. What is
/// computed for one sequence does not depend on the others but for the last bits of matrix
/// products, whose sums depend on the number of rows.
class LanguageModel {
 public:
  virtual ~LanguageModel() = default;

  /// Forgets the batch before and begins another, of prompts of at least one token each. Returns
  /// the logits of the token after each. Throws Error{data} for an id that is not below vocab_size.
  virtual std::span<const float> prefill(std::span<const std::vector<std::int32_t>> prompts) = 0;
  /// Appends a token to each sequence of the batch, or none (-1) to one that is finished. Returns
  /// the logits of the tokens after those.
  virtual std::span<const float> decode(std::span<const std::int32_t> tokens) = 0;

  // Logits are [prompts, vocab_size], valid until the next call; rows of finished sequences have no
  // meaning.
};

}  // namespace troupe::stages
