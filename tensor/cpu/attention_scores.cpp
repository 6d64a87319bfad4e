#include "tensor/cpu/attention_scores.h"

#include <cmath>
#include <cstring>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/cpu/attention_scores.cpp"
#include <hwy/foreach_target.h>

#include "tensor/cpu/attention_rows-inl.h"
#include "tensor/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace troupe::tensor::HWY_NAMESPACE {

template <typename T>
HWY_INLINE void clear(T* x, std::int64_t count) {
  std::memset(static_cast<void*>(x), 0, static_cast<std::size_t>(count) * sizeof(T));
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

HWY_EXPORT(softmax_all);
HWY_EXPORT(score_gradient_all);

}  // namespace

void softmax_block(const QueryBlock& block, const Softmax& softmax) {
  HWY_DYNAMIC_DISPATCH(softmax_all)(block, softmax);
}

void score_gradient_block(const QueryBlock& block, const ScoreGradient& gradient) {
  HWY_DYNAMIC_DISPATCH(score_gradient_all)(block, gradient);
}

}  // namespace troupe::tensor
#endif
