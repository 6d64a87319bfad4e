#pragma once

#include <cstdint>

#include "tensor/cpu/query_block.h"
#include "tensor/dtype.h"

namespace troupe::tensor {

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
