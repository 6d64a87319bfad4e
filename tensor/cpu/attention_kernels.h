#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/dtype.h"

namespace troupe::tensor {

/// Rows of heads: element d of head g at position p is data[p * stride + g * head_dim + d], in
/// elements of dtype.
struct HeadRows {
  void* data = nullptr;
  DType dtype = DType::f32;
  std::int64_t stride = 0;

  HeadRows from_element(std::int64_t element) const {
    const auto bytes = element * static_cast<std::int64_t>(size_of(dtype));
    return {static_cast<std::byte*>(data) + bytes, dtype, stride};
  }
  HeadRows from_position(std::int64_t position) const { return from_element(position * stride); }
};

/// Consecutive query positions of the heads that share one key-value head. Row r of its matrices is
/// position first + r / group, head r % group; that row sees the first (position + 1) of the
/// columns.
struct QueryBlock {
  std::int64_t first = 0;
  std::int64_t positions = 0;
  std::int64_t group = 1;
  std::int64_t head_dim = 0;

  std::int64_t rows() const { return positions * group; }
  std::int64_t columns() const { return first + positions; }
};

/// Tables of cos and sin of position * frequency, [positions, head_dim / 2] each.
struct Rotation {
  const float* cos = nullptr;
  const float* sin = nullptr;
};
enum class Direction { forward, backward };

/// to = from with each head rotated by its position (rotate-half), or rotated back.
void rotate_heads(const QueryBlock& block, Rotation rotation, Direction direction,
                  const HeadRows& from, const HeadRows& to);
/// to = from.
void copy_heads(const QueryBlock& block, const HeadRows& from, const HeadRows& to);

/// Turns scores[rows, columns] into probabilities (of `dtype`, may lie over the scores) that still
/// lack the factor inverse_sum[rows]. lse of head g at position p is lse[g * lse_stride + p].
struct Softmax {
  float scale = 1;
  float* scores = nullptr;
  DType dtype = DType::f32;
  void* probabilities = nullptr;
  float* inverse_sum = nullptr;
  float* lse = nullptr;
  std::int64_t lse_stride = 0;
};
void softmax_block(const QueryBlock& block, const Softmax& softmax);

/// out = values[rows, head_dim] * inverse_sum[rows].
void scale_heads(const QueryBlock& block, const float* values, const float* inverse_sum,
                 const HeadRows& out);

/// packed[rows, head_dim] = dout, of dout's dtype; delta[rows] = sum over the head of dout * out.
void gather_gradient(const QueryBlock& block, const HeadRows& dout, const HeadRows& out,
                     void* packed, float* delta);

/// Computes, from scores and dprobabilities (both [rows, columns]), lse and delta, the
/// probabilities and the gradient of the unscaled scores, dscores = p * (dp - delta) * scale. Both
/// are of `dtype`, and each may lie over its source.
struct ScoreGradient {
  float scale = 1;
  const float* scores = nullptr;
  const float* dprobabilities = nullptr;
  const float* delta = nullptr;
  const float* lse = nullptr;
  std::int64_t lse_stride = 0;
  DType dtype = DType::f32;
  void* probabilities = nullptr;
  void* dscores = nullptr;
};
void score_gradient_block(const QueryBlock& block, const ScoreGradient& gradient);

}  // namespace troupe::tensor
