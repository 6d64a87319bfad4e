#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/cpu/attention/query_block.h"
#include "tensor/values/dtype.h"

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

/// Tables of cos and sin of position * frequency, [positions, dim / 2] each, by which the first
/// `dim` elements of each head turn.
struct Rotation {
  const float* cos = nullptr;
  const float* sin = nullptr;
  std::int64_t dim = 0;
};
enum class Direction { forward, backward };

/// to = from with each head rotated by its position (rotate-half within what turns), or rotated
/// back.
void rotate_heads(const QueryBlock& block, Rotation rotation, Direction direction,
                  const HeadRows& from, const HeadRows& to);
/// to = from.
void copy_heads(const QueryBlock& block, const HeadRows& from, const HeadRows& to);

/// out = values[rows, head_dim] * inverse_sum[rows].
void scale_heads(const QueryBlock& block, const float* values, const float* inverse_sum,
                 const HeadRows& out);

/// packed[rows, head_dim] = dout, of dout's dtype; delta[rows] = sum over the head of dout * out.
void gather_gradient(const QueryBlock& block, const HeadRows& dout, const HeadRows& out,
                     void* packed, float* delta);

}  // namespace troupe::tensor
