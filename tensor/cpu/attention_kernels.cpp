#include "tensor/cpu/attention_kernels.h"

#include <cmath>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/cpu/attention_kernels.cpp"
#include <hwy/foreach_target.h>

#include "tensor/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace troupe::tensor::HWY_NAMESPACE {

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
      for (std::int64_t p = 0; p < block.positions; ++p) {
        const std::int64_t angle = (block.first + p) * half;
        for (std::int64_t g = 0; g < block.group; ++g) {
          rotate_head(static_cast<const From*>(from.data) + p * from.stride + g * block.head_dim,
                      rotation.cos + angle, rotation.sin + angle, sign, half,
                      static_cast<To*>(to.data) + p * to.stride + g * block.head_dim);
        }
      }
    });
  });
}

void copy_all(const QueryBlock& block, const HeadRows& from, const HeadRows& to) {
  with_type(from.dtype, [&](auto* from_type) HWY_ATTR {
    using From = std::remove_pointer_t<decltype(from_type)>;
    with_type(to.dtype, [&](auto* to_type) HWY_ATTR {
      using To = std::remove_pointer_t<decltype(to_type)>;
      for (std::int64_t p = 0; p < block.positions; ++p) {
        const From* source = static_cast<const From*>(from.data) + p * from.stride;
        To* target = static_cast<To*>(to.data) + p * to.stride;
        for_each_vector(block.group * block.head_dim, [&](std::int64_t i, std::int64_t n) HWY_ATTR {
          store(load(source + i, n), target + i, n);
        });
      }
    });
  });
}

/// p = exp((scores - max) * scale) and 0 beyond `seen`. Returns the sum of p; max is that of scores * scale.
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
  std::fill(p + seen, p + columns, T{});
  return {max, sum_of_lanes(sum)};
}

void softmax_all(const QueryBlock& block, const Softmax& softmax) {
  with_type(softmax.dtype, [&](auto* type) HWY_ATTR {
    using T = std::remove_pointer_t<decltype(type)>;
    for (std::int64_t r = 0; r < block.rows(); ++r) {
      const std::int64_t position = block.first + r / block.group;
      const RowSoftmax row =
          softmax_row(softmax.scores + r * block.columns(), position + 1, block.columns(),
                      softmax.scale, static_cast<T*>(softmax.probabilities) + r * block.columns());
      softmax.inverse_sum[r] = 1.0f / row.sum;
      softmax.lse[r % block.group * softmax.lse_stride + position] = row.max + std::log(row.sum);
    }
  });
}

void scale_all(const QueryBlock& block, const float* values, const float* inverse_sum,
               const HeadRows& out) {
  with_type(out.dtype, [&](auto* type) HWY_ATTR {
    using T = std::remove_pointer_t<decltype(type)>;
    for (std::int64_t r = 0; r < block.rows(); ++r) {
      const float* row = values + r * block.head_dim;
      T* to = static_cast<T*>(out.data) + r / block.group * out.stride +
              r % block.group * block.head_dim;
      for_each_vector(block.head_dim, [&](std::int64_t i, std::int64_t n) HWY_ATTR {
        store(hn::Mul(load(row + i, n), constant(inverse_sum[r])), to + i, n);
      });
    }
  });
}

void gather_all(const QueryBlock& block, const HeadRows& dout, const HeadRows& out, void* packed,
                float* delta) {
  with_type(dout.dtype, [&](auto* type) HWY_ATTR {
    using T = std::remove_pointer_t<decltype(type)>;
    for (std::int64_t r = 0; r < block.rows(); ++r) {
      const std::int64_t p = r / block.group, column = r % block.group * block.head_dim;
      const T* gradient = static_cast<const T*>(dout.data) + p * dout.stride + column;
      const T* output = static_cast<const T*>(out.data) + p * out.stride + column;
      T* to = static_cast<T*>(packed) + r * block.head_dim;
      auto dot = zero();
      for_each_vector(block.head_dim, [&](std::int64_t i, std::int64_t n) HWY_ATTR {
        const auto d = load(gradient + i, n);
        dot = hn::MulAdd(d, load(output + i, n), dot);
        store(d, to + i, n);
      });
      delta[r] = sum_of_lanes(dot);
    }
  });
}

void score_gradient_all(const QueryBlock& block, const ScoreGradient& gradient) {
  with_type(gradient.dtype, [&](auto* type) HWY_ATTR {
    using T = std::remove_pointer_t<decltype(type)>;
    for (std::int64_t r = 0; r < block.rows(); ++r) {
      const std::int64_t position = block.first + r / block.group, row = r * block.columns();
      const auto lse =
          constant(gradient.lse[r % block.group * gradient.lse_stride + position]);
      const auto scale = constant(gradient.scale), delta = constant(gradient.delta[r]);
      T* p = static_cast<T*>(gradient.probabilities) + row;
      T* ds = static_cast<T*>(gradient.dscores) + row;
      for_each_vector(position + 1, [&](std::int64_t i, std::int64_t n) HWY_ATTR {
        const auto e = exp(hn::MulSub(load(gradient.scores + row + i, n), scale, lse));
        const auto dp = load(gradient.dprobabilities + row + i, n);
        store(e, p + i, n);
        store(hn::Mul(hn::Mul(e, scale), hn::Sub(dp, delta)), ds + i, n);
      });
      std::fill(p + position + 1, p + block.columns(), T{});
      std::fill(ds + position + 1, ds + block.columns(), T{});
    }
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
