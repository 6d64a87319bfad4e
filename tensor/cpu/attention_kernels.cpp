#include "tensor/cpu/attention_kernels.h"

#include <cmath>
#include <cstring>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/cpu/attention_kernels.cpp"
#include <hwy/foreach_target.h>

#include "tensor/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace troupe::tensor::HWY_NAMESPACE {

/// Calls body(row, position, head) for the rows of the block in order.
template <typename Body>
HWY_INLINE void for_each_row(const QueryBlock& block, const Body& body) {
  std::int64_t row = 0;
  for (std::int64_t p = 0; p < block.positions; ++p) {
    for (std::int64_t g = 0; g < block.group; ++g) body(row++, p, g);
  }
}

template <typename T>
HWY_INLINE T* head_at(const HeadRows& rows, std::int64_t p, std::int64_t offset) {
  return static_cast<T*>(rows.data) + p * rows.stride + offset;
}

template <typename T>
HWY_INLINE void clear(T* x, std::int64_t count) {
  std::memset(static_cast<void*>(x), 0, static_cast<std::size_t>(count) * sizeof(T));
}

template <typename From, typename To>
HWY_INLINE void rotate_head(const From* from, const float* cos, const float* sin, float sign,
                            std::int64_t half, To* to) {
  for_each_vector(half, [&](std::int64_t i, std::int64_t n) HWY_ATTR {
    const auto c = load(cos + i, n);
    const auto s = hn::Mul(load(sin + i, n), constant(sign));
    const auto x = load(from + i, n);
    const auto y = load(from + half + i, n);
    store(hn::NegMulAdd(y, s, hn::Mul(x, c)), to + i, n);
    store(hn::MulAdd(x, s, hn::Mul(y, c)), to + half + i, n);
  });
}

void rotate_all(const QueryBlock& block, Rotation rotation, Direction direction,
                const HeadRows& from, const HeadRows& to) {
  const std::int64_t half = block.head_dim / 2;
  const float sign = direction == Direction::forward ? 1.0f : -1.0f;
  with_type(from.dtype, [&](auto* from_type) HWY_ATTR {
    using From = std::remove_pointer_t<decltype(from_type)>;
    with_type(to.dtype, [&](auto* to_type) HWY_ATTR {
      using To = std::remove_pointer_t<decltype(to_type)>;
      for_each_row(block, [&](std::int64_t, std::int64_t p, std::int64_t g) HWY_ATTR {
        const std::int64_t angle = (block.first + p) * half, column = g * block.head_dim;
        rotate_head(head_at<const From>(from, p, column), rotation.cos + angle,
                    rotation.sin + angle, sign, half, head_at<To>(to, p, column));
      });
    });
  });
}

void copy_all(const QueryBlock& block, const HeadRows& from, const HeadRows& to) {
  with_type(from.dtype, [&](auto* from_type) HWY_ATTR {
    using From = std::remove_pointer_t<decltype(from_type)>;
    with_type(to.dtype, [&](auto* to_type) HWY_ATTR {
      using To = std::remove_pointer_t<decltype(to_type)>;
      for (std::int64_t p = 0; p < block.positions; ++p) {
        const From* source = head_at<const From>(from, p, 0);
        To* target = head_at<To>(to, p, 0);
        for_each_vector(block.group * block.head_dim, [&](std::int64_t i, std::int64_t n) HWY_ATTR {
          store(load(source + i, n), target + i, n);
        });
      }
    });
  });
}

/// p = exp((scores - max) * scale) and 0 beyond `seen`. Returns the sum of p and the maximum of
/// scores * scale.
struct RowSoftmax {
  float max;
  float sum;
};
template <typename T>
HWY_INLINE RowSoftmax softmax_row(const float* scores, std::int64_t seen, std::int64_t columns,
                                  float scale, T* p) {
  auto largest = constant(-std::numeric_limits<float>::infinity());
  for_each_vector(seen, [&](std::int64_t i, std::int64_t n) HWY_ATTR {
    largest = hn::Max(largest, load_or(scores + i, n, largest));
  });
  const float max = hn::GetLane(hn::MaxOfLanes(F32(), largest)) * scale;
  auto sum = zero();
  for_each_vector(seen, [&](std::int64_t i, std::int64_t n) HWY_ATTR {
    const auto e = first_n(exp(hn::MulSub(load(scores + i, n), constant(scale), constant(max))), n);
    sum = hn::Add(sum, e);
    store(e, p + i, n);
  });
  clear(p + seen, columns - seen);
  return {max, sum_of_lanes(sum)};
}

void softmax_all(const QueryBlock& block, const Softmax& softmax) {
  with_type(softmax.dtype, [&](auto* type) HWY_ATTR {
    using T = std::remove_pointer_t<decltype(type)>;
    for_each_row(block, [&](std::int64_t r, std::int64_t p, std::int64_t g) HWY_ATTR {
      const std::int64_t position = block.first + p;
      const RowSoftmax row =
          softmax_row(softmax.scores + r * block.columns(), position + 1, block.columns(),
                      softmax.scale, static_cast<T*>(softmax.probabilities) + r * block.columns());
      softmax.inverse_sum[r] = 1.0f / row.sum;
      softmax.lse[g * softmax.lse_stride + position] = row.max + std::log(row.sum);
    });
  });
}

void scale_all(const QueryBlock& block, const float* values, const float* inverse_sum,
               const HeadRows& out) {
  with_type(out.dtype, [&](auto* type) HWY_ATTR {
    using T = std::remove_pointer_t<decltype(type)>;
    for_each_row(block, [&](std::int64_t r, std::int64_t p, std::int64_t g) HWY_ATTR {
      const float* row = values + r * block.head_dim;
      const auto factor = constant(inverse_sum[r]);
      T* to = head_at<T>(out, p, g * block.head_dim);
      for_each_vector(block.head_dim, [&](std::int64_t i, std::int64_t n) HWY_ATTR {
        store(hn::Mul(load(row + i, n), factor), to + i, n);
      });
    });
  });
}

void gather_all(const QueryBlock& block, const HeadRows& dout, const HeadRows& out, void* packed,
                float* delta) {
  with_type(dout.dtype, [&](auto* type) HWY_ATTR {
    using T = std::remove_pointer_t<decltype(type)>;
    for_each_row(block, [&](std::int64_t r, std::int64_t p, std::int64_t g) HWY_ATTR {
      const T* gradient = head_at<const T>(dout, p, g * block.head_dim);
      const T* output = head_at<const T>(out, p, g * block.head_dim);
      T* to = static_cast<T*>(packed) + r * block.head_dim;
      auto dot = zero();
      for_each_vector(block.head_dim, [&](std::int64_t i, std::int64_t n) HWY_ATTR {
        const auto d = load(gradient + i, n);
        dot = hn::MulAdd(d, load(output + i, n), dot);
        store(d, to + i, n);
      });
      delta[r] = sum_of_lanes(dot);
    });
  });
}

/// p = exp(scores * scale - lse), dscores = p * (dp - delta) * scale.
template <typename T>
HWY_INLINE void score_gradient_row(const float* scores, const float* dp, float scale_factor,
                                   float lse_value, float delta_value, std::int64_t seen, T* p,
                                   T* dscores) {
  const auto scale = constant(scale_factor), lse = constant(lse_value);
  const auto delta = constant(delta_value);
  for_each_vector(seen, [&](std::int64_t i, std::int64_t n) HWY_ATTR {
    const auto e = exp(hn::MulSub(load(scores + i, n), scale, lse));
    const auto d = hn::Sub(load(dp + i, n), delta);
    store(e, p + i, n);
    store(hn::Mul(hn::Mul(e, scale), d), dscores + i, n);
  });
}

void score_gradient_all(const QueryBlock& block, const ScoreGradient& gradient) {
  with_type(gradient.dtype, [&](auto* type) HWY_ATTR {
    using T = std::remove_pointer_t<decltype(type)>;
    for_each_row(block, [&](std::int64_t r, std::int64_t position, std::int64_t g) HWY_ATTR {
      const std::int64_t row = r * block.columns(), seen = block.first + position + 1;
      T* p = static_cast<T*>(gradient.probabilities) + row;
      T* dscores = static_cast<T*>(gradient.dscores) + row;
      score_gradient_row(gradient.scores + row, gradient.dprobabilities + row, gradient.scale,
                         gradient.lse[g * gradient.lse_stride + seen - 1], gradient.delta[r], seen,
                         p, dscores);
      clear(p + seen, block.columns() - seen);
      clear(dscores + seen, block.columns() - seen);
    });
  });
}

}  // namespace troupe::tensor::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::tensor {
namespace {

HWY_EXPORT(rotate_all);
HWY_EXPORT(copy_all);
HWY_EXPORT(softmax_all);
HWY_EXPORT(scale_all);
HWY_EXPORT(gather_all);
HWY_EXPORT(score_gradient_all);

}  // namespace

void rotate_heads(const QueryBlock& block, Rotation rotation, Direction direction,
                  const HeadRows& from, const HeadRows& to) {
  HWY_DYNAMIC_DISPATCH(rotate_all)(block, rotation, direction, from, to);
}

void copy_heads(const QueryBlock& block, const HeadRows& from, const HeadRows& to) {
  HWY_DYNAMIC_DISPATCH(copy_all)(block, from, to);
}

void softmax_block(const QueryBlock& block, const Softmax& softmax) {
  HWY_DYNAMIC_DISPATCH(softmax_all)(block, softmax);
}

void scale_heads(const QueryBlock& block, const float* values, const float* inverse_sum,
                 const HeadRows& out) {
  HWY_DYNAMIC_DISPATCH(scale_all)(block, values, inverse_sum, out);
}

void gather_gradient(const QueryBlock& block, const HeadRows& dout, const HeadRows& out,
                     void* packed, float* delta) {
  HWY_DYNAMIC_DISPATCH(gather_all)(block, dout, out, packed, delta);
}

void score_gradient_block(const QueryBlock& block, const ScoreGradient& gradient) {
  HWY_DYNAMIC_DISPATCH(score_gradient_all)(block, gradient);
}

}  // namespace troupe::tensor
#endif
