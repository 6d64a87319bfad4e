#pragma once

#include <cstdint>
#include <vector>

#include "stages/model/model_config.h"
#include "tensor/device/device.h"

namespace troupe::stages {

/// A token that a pass computes.
struct NewToken {
  std::int32_t id = 0;
  std::int32_t sequence = 0;  ///< of the cache
  std::int32_t position = 0;  ///< in the sequence
  /// Tokens of the sequence that its rotary embedding takes into account, if that depends on their
  /// number (depends_on_length()): the whole prompt of a token of it, else those so far.
  std::int64_t length = 0;
};

/// What ops are told of the rows of a pass.
struct RowTensors {
  tensor::Tensor ids, sequences, positions;  // [count] int32; sequences: -1: no token
  tensor::Tensor cos, sin;  // [count, D/2] float32; empty if the model has no rotary embedding
};

/// The rows of a pass in pinned memory, where ops of any device can read them. Rows without a token
/// follow the others. May be filled again once the ops that read it have run.
class TokenRows {
 public:
  /// Room for `most` rows.
  TokenRows(const ModelConfig& model, std::int64_t most, tensor::Device& device);

  /// Makes `count` rows of these tokens, and others without.
  void fill(std::span<const NewToken> tokens, std::int64_t count);

  std::int64_t count() const { return count_; }
  RowTensors tensors() const;

 private:
  void rotate(const RowTensors& rows, std::int64_t row, const NewToken& token);

  const ModelConfig model_;
  const std::int64_t most_;
  const std::int64_t half_;  ///< of a head; 0 without rotary embedding
  const tensor::Buffer numbers_, angles_;
  std::int64_t count_ = 0;
  std::vector<float> inverse_;       ///< frequencies
  std::int64_t inverse_length_ = 0;  ///< for which they are; 0: not computed
};

}  // namespace troupe::stages
