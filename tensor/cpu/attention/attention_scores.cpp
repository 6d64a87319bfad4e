#include "tensor/cpu/attention/attention_scores.h"

#include <cmath>
#include <cstring>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/cpu/attention/attention_scores.cpp"
#include <hwy/foreach_target.h>

#include "tensor/cpu/attention/attention_rows-inl.h"
#include "tensor/cpu/loops/philox-inl.h"
#include "tensor/cpu/loops/simd-inl.h"
#include "tensor/cpu/loops/soft_cap-inl.h"

HWY_BEFORE_NAMESPACE();
namespace troupe::tensor::HWY_NAMESPACE {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

template <typename T>
HWY_INLINE void clear(T* x, std::int64_t count) {
  std::memset(static_cast<void*>(x), 0, static_cast<std::size_t>(count) * sizeof(T));
}

void mask_all(const QueryBlock& block, float scale, const MaskRows& mask, float* scores) {
  for_each_row(block, [&](std::int64_t r, std::int64_t p, std::int64_t) HWY_ATTR {
    const float* added = mask.values + (block.first + p) * mask.stride;
    float* row = scores + r * block.columns;
    for_each_vector(block.seen(p), [&](std::int64_t i, std::int64_t n) HWY_ATTR {
      store(hn::MulAdd(load(row + i, n), constant(scale), load(added + i, n)), row + i, n);
    });
  });
}

void cap_all(const QueryBlock& block, float scale, float cap, float* scores) {
  for_each_row(block, [&](std::int64_t r, std::int64_t p, std::int64_t) HWY_ATTR {
    float* row = scores + r * block.columns + block.hidden(p);
    for_each_vector(block.seen(p) - block.hidden(p), [&](std::int64_t i, std::int64_t n) HWY_ATTR {
      store(soft_cap(load(row + i, n), scale, cap), row + i, n);
    });
  });
}

/// Clears what a row of the block's p-th position does not see.
template <typename T>
HWY_INLINE void clear_unseen(const QueryBlock& block, std::int64_t p, T* row) {
  clear(row, block.hidden(p));
  clear(row + block.seen(p), block.columns - block.seen(p));
}

/// p = exp((scores - max) * scale) of `seen` scores. Returns the sum of p and the maximum of
/// scores * scale, which counts as 0 if it is -inf, so that p is then 0 and not NaN.
struct RowSoftmax {
  float max;
  float sum;
};
template <typename T>
HWY_INLINE RowSoftmax softmax_row(const float* scores, std::int64_t seen, float scale, T* p) {
  auto largest = constant(-kInfinity);
  for_each_vector(seen, [&](std::int64_t i, std::int64_t n) HWY_ATTR {
    largest = hn::Max(largest, load_or(scores + i, n, largest));
  });
  float max = hn::GetLane(hn::MaxOfLanes(F32(), largest)) * scale;
  if (max == -kInfinity) max = 0;
  auto sum = zero();
  for_each_vector(seen, [&](std::int64_t i, std::int64_t n) HWY_ATTR {
    const auto e = first_n(exp(hn::MulSub(load(scores + i, n), constant(scale), constant(max))), n);
    sum = hn::Add(sum, e);
    store(e, p + i, n);
  });
  return {max, sum_of_lanes(sum)};
}

void softmax_all(const QueryBlock& block, const Softmax& softmax) {
  with_type(softmax.dtype, [&]<typename T>(T*) HWY_ATTR {
    for_each_row(block, [&](std::int64_t r, std::int64_t p, std::int64_t g) HWY_ATTR {
      const std::int64_t position = block.first + p, start = r * block.columns;
      const std::int64_t hidden = block.hidden(p);
      T* probabilities = static_cast<T*>(softmax.probabilities) + start;
      const RowSoftmax row = softmax_row(softmax.scores + start + hidden, block.seen(p) - hidden,
                                         softmax.scale, probabilities + hidden);
      clear_unseen(block, p, probabilities);
      softmax.inverse_sum[r] = row.sum == 0 ? 0 : 1.0f / row.sum;
      if (softmax.lse) softmax.lse[g * softmax.lse_stride + position] = row.max + std::log(row.sum);
    });
  });
}

/// The first key that the rows of the block's p-th position see.
HWY_INLINE std::uint64_t first_key(const QueryBlock& block, std::int64_t p) {
  return static_cast<std::uint64_t>(block.first_key + block.hidden(p));
}

void drop_all(const QueryBlock& block, const ScoreDropout& scores, DType dtype, void* probabilities,
              float* inverse_sum) {
  const Dropout& dropout = scores.dropout;
  with_type(dtype, [&]<typename T>(T*) HWY_ATTR {
    for_each_row(block, [&](std::int64_t r, std::int64_t p, std::int64_t g) HWY_ATTR {
      const std::int64_t hidden = block.hidden(p);
      T* row = static_cast<T*>(probabilities) + r * block.columns + hidden;
      for_each_draw(dropout.key, scores.row(g, block.first + p) + first_key(block, p),
                    block.seen(p) - hidden,
                    [&](std::int64_t i, std::int64_t n, auto words)
                        HWY_ATTR { store(drop(dropout, words, load(row + i, n)), row + i, n); });
      inverse_sum[r] *= dropout.scale();
    });
  });
}

/// The `seen` probabilities and dprobabilities of a row that count.
template <typename T>
struct GradientRow {
  const float* scores;
  const float* dprobabilities;
  float scale, score_scale, cap, lse, delta;
  std::int64_t seen;
  T* probabilities;
  T* dscores;

  HWY_INLINE Vector probability(std::int64_t i, std::int64_t n) const {
    return exp(hn::MulSub(load(scores + i, n), constant(score_scale), constant(lse)));
  }
  /// The derivative of the score by the product. To be read before the probability is stored.
  HWY_INLINE Vector slope(std::int64_t i, std::int64_t n) const {
    return cap == 0 ? constant(scale) : soft_cap_slope(load(scores + i, n), scale, cap);
  }
  HWY_INLINE void store_score(Vector p, Vector slope, Vector dp, std::int64_t i,
                              std::int64_t n) const {
    store(hn::Mul(hn::Mul(p, slope), hn::Sub(dp, constant(delta))), dscores + i, n);
  }
};

template <typename T>
HWY_INLINE void score_gradient_row(const GradientRow<T>& row) {
  for_each_vector(row.seen, [&](std::int64_t i, std::int64_t n) HWY_ATTR {
    const auto p = row.probability(i, n), slope = row.slope(i, n);
    store(p, row.probabilities + i, n);
    row.store_score(p, slope, load(row.dprobabilities + i, n), i, n);
  });
}

template <typename T>
HWY_INLINE void dropped_gradient_row(const GradientRow<T>& row, const Dropout& dropout,
                                     std::uint64_t first) {
  const auto scale = constant(dropout.scale());
  for_each_draw(dropout.key, first, row.seen,
                [&](std::int64_t i, std::int64_t n, auto words) HWY_ATTR {
                  const auto p = row.probability(i, n), slope = row.slope(i, n);
                  const auto dp = hn::Mul(load(row.dprobabilities + i, n), scale);
                  store(drop(dropout, words, hn::Mul(p, scale)), row.probabilities + i, n);
                  row.store_score(p, slope, drop(dropout, words, dp), i, n);
                });
}

void score_gradient_all(const QueryBlock& block, const ScoreGradient& gradient) {
  with_type(gradient.dtype, [&]<typename T>(T*) HWY_ATTR {
    for_each_row(block, [&](std::int64_t r, std::int64_t p, std::int64_t g) HWY_ATTR {
      const std::int64_t hidden = block.hidden(p), start = r * block.columns + hidden;
      const float lse = gradient.lse[g * gradient.lse_stride + block.first + p];
      const GradientRow<T> row{.scores = gradient.scores + start,
                               .dprobabilities = gradient.dprobabilities + start,
                               .scale = gradient.scale,
                               .score_scale = gradient.score_scale,
                               .cap = gradient.cap,
                               .lse = lse == -kInfinity ? 0 : lse,  // e^(-inf - 0) is 0, not NaN
                               .delta = gradient.delta[r],
                               .seen = block.seen(p) - hidden,
                               .probabilities = static_cast<T*>(gradient.probabilities) + start,
                               .dscores = static_cast<T*>(gradient.dscores) + start};
      if (gradient.dropout.drops()) {
        dropped_gradient_row(row, gradient.dropout.dropout,
                             gradient.dropout.row(g, block.first + p) + first_key(block, p));
      } else {
        score_gradient_row(row);
      }
      clear_unseen(block, p, row.probabilities - hidden);
      clear_unseen(block, p, row.dscores - hidden);
    });
  });
}

}  // namespace troupe::tensor::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::tensor {
namespace {

HWY_EXPORT(mask_all);
HWY_EXPORT(cap_all);
HWY_EXPORT(softmax_all);
HWY_EXPORT(drop_all);
HWY_EXPORT(score_gradient_all);

}  // namespace

void mask_block(const QueryBlock& block, float scale, const MaskRows& mask, float* scores) {
  HWY_DYNAMIC_DISPATCH(mask_all)(block, scale, mask, scores);
}

void cap_block(const QueryBlock& block, float scale, float cap, float* scores) {
  HWY_DYNAMIC_DISPATCH(cap_all)(block, scale, cap, scores);
}

void softmax_block(const QueryBlock& block, const Softmax& softmax) {
  HWY_DYNAMIC_DISPATCH(softmax_all)(block, softmax);
}

void drop_block(const QueryBlock& block, const ScoreDropout& dropout, DType dtype,
                void* probabilities, float* inverse_sum) {
  HWY_DYNAMIC_DISPATCH(drop_all)(block, dropout, dtype, probabilities, inverse_sum);
}

void score_gradient_block(const QueryBlock& block, const ScoreGradient& gradient) {
  HWY_DYNAMIC_DISPATCH(score_gradient_all)(block, gradient);
}

}  // namespace troupe::tensor
#endif
