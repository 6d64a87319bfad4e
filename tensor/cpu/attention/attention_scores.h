#pragma once

#include <cstdint>

#include "tensor/cpu/attention/query_block.h"
#include "tensor/values/dtype.h"
#include "tensor/values/random.h"

namespace troupe::tensor {

/// Additive mask of one sequence: the value for the key j at position p is values[p * stride + j].
struct MaskRows {
  const float* values = nullptr;  // null if there is none
  std::int64_t stride = 0;
};
/// scores[rows, columns] = scores * scale + mask, as far as the rows see. The block has no window.
void mask_block(const QueryBlock& block, float scale, const MaskRows& mask, float* scores);

/// scores[rows, columns] = cap * tanh(scores * scale / cap), as far as the rows see.
void cap_block(const QueryBlock& block, float scale, float cap, float* scores);

/// Turns scores[rows, columns] into probabilities (of `dtype`, may lie over the scores) that still
/// lack the factor inverse_sum[rows]. lse of head g at position p is lse[g * lse_stride + p].
/// Zeros, inverse_sum 0 and lse -inf if all scores of a row are -inf.
struct Softmax {
  float scale = 1;  // of the scores
  float* scores = nullptr;
  DType dtype = DType::f32;
  void* probabilities = nullptr;
  float* inverse_sum = nullptr;
  float* lse = nullptr;  // null: not wanted
  std::int64_t lse_stride = 0;
};
void softmax_block(const QueryBlock& block, const Softmax& softmax);

/// Dropout of the probabilities of some heads of one sequence. The one of head g at position p for
/// the key j has the index first + g * head_stride + p * position_stride + j, whatever the window.
struct ScoreDropout {
  Dropout dropout;
  std::uint64_t first = 0;
  std::uint64_t head_stride = 0;
  std::uint64_t position_stride = 0;

  bool drops() const { return dropout.p > 0; }
  std::uint64_t row(std::int64_t g, std::int64_t p) const {
    return first + static_cast<std::uint64_t>(g) * head_stride +
           static_cast<std::uint64_t>(p) * position_stride;
  }
};
/// Clears the dropped ones of probabilities[rows, columns], and scales inverse_sum[rows] so that
/// the sum of the others keeps its expectation.
void drop_block(const QueryBlock& block, const ScoreDropout& dropout, DType dtype,
                void* probabilities, float* inverse_sum);

/// Computes, from scores and dprobabilities (both [rows, columns]), lse and delta, the
/// probabilities and the gradient of the products of queries and keys, dscores = p * (dp - delta) *
/// scale. Both are of `dtype`, and each may lie over its source. With dropout, dprobabilities is
/// the gradient of the dropped and scaled probabilities, and those are what `probabilities` gets.
struct ScoreGradient {
  float scale = 1;        // of the products of queries and keys
  float score_scale = 1;  // what the scores still lack of it
  float cap = 0;          // of cap_block(), which has been; 0: it has not
  const float* scores = nullptr;
  const float* dprobabilities = nullptr;
  const float* delta = nullptr;
  const float* lse = nullptr;
  std::int64_t lse_stride = 0;
  DType dtype = DType::f32;
  void* probabilities = nullptr;
  void* dscores = nullptr;
  ScoreDropout dropout;
};
void score_gradient_block(const QueryBlock& block, const ScoreGradient& gradient);

}  // namespace troupe::tensor
