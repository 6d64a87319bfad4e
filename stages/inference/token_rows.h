#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "stages/model/computation.h"
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

/// The rotary embeddings of a model: that of most layers, and that of those with a window, if they
/// have another.
constexpr std::size_t kMostRotations = 2;
using Rotations = std::array<std::optional<tensor::Rotary>, kMostRotations>;
Rotations rotations_of(const ModelConfig& model);
/// The number of an attention's among them; -1: it has none.
int rotation_of(const Rotations& rotations, const LayerAttention& attention);

/// What an embedding turns the heads of each row by, [count, R/2] float32; empty: not at all.
struct RowAngles {
  tensor::Tensor cos, sin;
};

/// What ops are told of the rows of a pass.
struct RowTensors {
  tensor::Tensor ids, sequences, positions;      // [count] int32; sequences: -1: no token
  std::array<RowAngles, kMostRotations> angles;  // by rotations_of()
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
  /// One of the model's rotary embeddings.
  struct Rotation {
    tensor::Rotary rotary;
    tensor::Buffer angles;
    std::vector<float> inverse;       ///< frequencies, R/2
    std::int64_t inverse_length = 0;  ///< for which they are; 0: not computed
    std::int64_t half() const { return static_cast<std::int64_t>(inverse.size()); }
  };
  static void rotate(Rotation& rotation, const RowAngles& angles, std::int64_t row,
                     const NewToken& token);

  const std::int64_t most_;
  const tensor::Buffer numbers_;
  std::array<std::optional<Rotation>, kMostRotations> rotations_;
  std::int64_t count_ = 0;
};

}  // namespace troupe::stages
