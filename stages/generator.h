#pragma once

#include <memory>
#include <span>

#include "stages/transformer_stage.h"
#include "tensor/host_copies.h"

namespace troupe::stages {

/// Predicts the next token with a whole model in one stage. Keeps no keys and values between calls:
/// each call is a forward pass over the window of tokens, padded at its end (which causal attention
/// never sees) to 64 * 2^n tokens, at most seq_len.
class Generator {
 public:
  /// `seq_len` is the longest context: if there are more tokens, the last seq_len are read. The
  /// device outlives the generator.
  Generator(const ModelConfig& model, tensor::Device& device, std::int64_t seq_len);

  /// The stage to load weights into, before the first call of next_logits().
  Stage& stage() { return *full_.stage; }

  /// Logits [vocab_size] of the token after `ids` (at least one). Valid until the next call. Throws
  /// Error{data} for an id that is not below vocab_size.
  std::span<const float> next_logits(std::span<const std::int32_t> ids);

 private:
  /// A stage for windows of up to `length` tokens.
  struct Window {
    std::int64_t length = 0;
    std::unique_ptr<Stage> stage;
  };
  Window make_window(std::int64_t length) const;
  /// The smallest window for `length` tokens.
  const Window& window_for(std::int64_t length);

  const ModelConfig model_;
  tensor::Device& device_;
  const std::unique_ptr<tensor::Stream> stream_;
  Window full_;
  Window short_;  ///< made when first used, and again when outgrown
  const tensor::Buffer logits_;
  const tensor::Buffer ids_;  ///< pinned
  tensor::HostCopies copies_;
};

/// Draws a token from softmax(logits / temperature), by a number that is a pure function of (seed,
/// position); the likeliest token (of equals the first) at temperature 0.
std::int32_t sample(std::span<const float> logits, double temperature, std::uint64_t seed,
                    std::uint64_t position);

}  // namespace troupe::stages
