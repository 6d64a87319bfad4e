#include <cmath>
#include <cstring>
#include <limits>

#include "tensor/cpu/loops/parallel.h"
#include "tensor/cpu/ops/cpu_ops.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/cpu/ops/loss_ops.cpp"
#include <hwy/foreach_target.h>

#include "tensor/cpu/loops/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace troupe::tensor::HWY_NAMESPACE {

/// The maximum of x, and log(sum(exp(x))) - max.
struct LogSumExp {
  float max;
  double log_sum;
};

HWY_INLINE LogSumExp log_sum_exp(const float* x, std::int64_t count) {
  const float max = max_of(x, count);
  const auto shift = constant(max);
  auto sum = zero();
  for_each_vector(count, [&](std::int64_t i, std::int64_t n) HWY_ATTR {
    sum = hn::Add(sum, first_n(exp(hn::Sub(load(x + i, n), shift)), n));
  });
  return {max, std::log(static_cast<double>(sum_of_lanes(sum)))};
}

template <typename T>
HWY_INLINE void softmax_gradient_row(const float* x, LogSumExp normalizer, std::int32_t target,
                                     float scale, std::int64_t count, T* dx) {
  const auto shift = constant(normalizer.max);
  const auto factor = constant(static_cast<float>(scale * std::exp(-normalizer.log_sum)));
  const double log_p = static_cast<double>(x[target]) - normalizer.max - normalizer.log_sum;
  for_each_vector(count, [&](std::int64_t i, std::int64_t n) HWY_ATTR {
    store(hn::Mul(exp(hn::Sub(load(x + i, n), shift)), factor), dx + i, n);
  });
  // expm1: no digits cancel if the target's probability is near 1.
  store(constant(static_cast<float>(scale * std::expm1(log_p))), dx + target, 1);
}

void clear_row(const Tensor& x, std::int64_t row) {
  const std::size_t bytes = static_cast<std::size_t>(x.shape[1]) * size_of(x.dtype);
  std::memset(x.as<std::byte>() + static_cast<std::size_t>(row) * bytes, 0, bytes);
}

/// Returns the summed loss of the rows [begin, end).
double cross_entropy_rows(const Tensor& logits, const Tensor& targets, float scale,
                          const Tensor& dlogits, const Tensor& token_losses, std::int64_t begin,
                          std::int64_t end) {
  const std::int64_t vocabulary = logits.shape[1];
  double loss = 0;
  for (std::int64_t t = begin; t < end; ++t) {
    const float* row = logits.as<float>() + t * vocabulary;
    const std::int32_t target = targets.as<std::int32_t>()[t];
    if (target == kNoTarget) {
      if (dlogits) clear_row(dlogits, t);
      if (token_losses) token_losses.as<double>()[t] = 0;
      continue;
    }
    const LogSumExp normalizer = log_sum_exp(row, vocabulary);
    const double of_token =
        normalizer.log_sum + (static_cast<double>(normalizer.max) - row[target]);
    loss += of_token;
    if (token_losses) token_losses.as<double>()[t] = of_token;
    if (!dlogits) continue;
    with_type(dlogits.dtype, [&]<typename T>(T*) HWY_ATTR {
      softmax_gradient_row(row, normalizer, target, scale, vocabulary,
                           dlogits.as<T>() + t * vocabulary);
    });
  }
  return loss;
}

void vocab_max_rows(const Tensor& logits, std::int64_t valid, const Tensor& max, std::int64_t begin,
                    std::int64_t end) {
  for (std::int64_t t = begin; t < end; ++t)
    max.as<float>()[t] = max_of(logits.as<float>() + t * logits.shape[1], valid);
}

/// Sums of one row of a shard.
struct RowSums {
  float exponentials, shifted;
};

/// Replaces a row by exp(row - max).
HWY_INLINE RowSums exponentiate(float* row, float max, std::int64_t count) {
  const auto shift = constant(max);
  auto exponentials = zero(), shifted = zero();
  for_each_vector(count, [&](std::int64_t i, std::int64_t n) HWY_ATTR {
    const auto x = hn::Sub(load(row + i, n), shift);
    const auto e = exp(x);
    exponentials = hn::Add(exponentials, first_n(e, n));
    shifted = hn::Add(shifted, first_n(x, n));
    store(e, row + i, n);
  });
  return {sum_of_lanes(exponentials), sum_of_lanes(shifted)};
}

void vocab_sums_rows(const Tensor& logits, const VocabColumns& columns, const Tensor& targets,
                     const Tensor& max, const Tensor& sums, std::int64_t begin, std::int64_t end) {
  const std::int64_t width = logits.shape[1], rows = logits.shape[0];
  float* const exponentials = sums.as<float>();
  float* const target_logit = exponentials + rows;
  for (std::int64_t t = begin; t < end; ++t) {
    float* row = logits.as<float>() + t * width;
    const float shift = max.as<float>()[t];
    const std::int64_t target = targets.as<std::int32_t>()[t] - columns.first;
    target_logit[t] = target >= 0 && target < columns.valid ? row[target] - shift : 0.0f;
    const RowSums sum = exponentiate(row, shift, columns.valid);
    for (std::int64_t c = columns.valid; c < width; ++c) row[c] = 0;
    exponentials[t] = sum.exponentials;
    if (sums.shape[0] == 3) target_logit[rows + t] = sum.shifted;
  }
}

/// What one token's row of gradients is made of.
struct RowGradient {
  float factor;         // of the exponentials
  float subtracted;     // from every class
  float at_target;      // the gradient there
  std::int64_t target;  // column; out of the shard's columns if another shard has it
};

template <typename T>
HWY_INLINE void gradient_row(const float* exponentials, const RowGradient& row, std::int64_t valid,
                             std::int64_t width, T* dlogits) {
  const auto factor = constant(row.factor), subtracted = constant(row.subtracted);
  for_each_vector(valid, [&](std::int64_t i, std::int64_t n) HWY_ATTR {
    store(hn::MulSub(load(exponentials + i, n), factor, subtracted), dlogits + i, n);
  });
  for_each_vector(width - valid, [&](std::int64_t i, std::int64_t n)
                                     HWY_ATTR { store(zero(), dlogits + valid + i, n); });
  if (row.target >= 0 && row.target < valid)
    store(constant(row.at_target), dlogits + row.target, 1);
}

/// Returns the summed loss of the rows [begin, end).
double vocab_loss_rows(const Tensor& exponentials, const VocabColumns& columns,
                       const Tensor& targets, const Tensor& sums, const VocabLoss& loss,
                       const Tensor& dlogits, const Tensor& token_losses, std::int64_t begin,
                       std::int64_t end) {
  const std::int64_t width = exponentials.shape[1], rows = exponentials.shape[0];
  const double classes = static_cast<double>(loss.classes), s = loss.smoothing;
  double total = 0;
  for (std::int64_t t = begin; t < end; ++t) {
    const float* sum = sums.as<float>() + t;
    const std::int32_t target = targets.as<std::int32_t>()[t];
    RowGradient row{0, 0, 0, -1};
    double of_token = 0;
    if (target != loss.ignored) {
      const double log_sum = std::log(static_cast<double>(sum[0])), log_p = sum[rows] - log_sum;
      const double mean_log_p = s > 0 ? sum[2 * rows] / classes - log_sum : 0.0;
      of_token = -((1 - s) * log_p + s * mean_log_p);
      total += of_token;
      row.factor = static_cast<float>(loss.scale / sum[0]);
      row.subtracted = static_cast<float>(loss.scale * s / classes);
      // expm1: no digits cancel if the target's probability is near 1.
      row.at_target = static_cast<float>(loss.scale * (std::expm1(log_p) + s - s / classes));
      row.target = target - columns.first;
    }
    if (token_losses) token_losses.as<double>()[t] = of_token;
    if (!dlogits) continue;
    with_type(dlogits.dtype, [&]<typename T>(T*) HWY_ATTR {
      gradient_row(exponentials.as<float>() + t * width, row, columns.valid, width,
                   dlogits.as<T>() + t * width);
    });
  }
  return total;
}

}  // namespace troupe::tensor::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::tensor {
namespace {

constexpr std::int64_t kRowGrain = 1;  // a row is a vocabulary long

HWY_EXPORT(cross_entropy_rows);
HWY_EXPORT(vocab_max_rows);
HWY_EXPORT(vocab_sums_rows);
HWY_EXPORT(vocab_loss_rows);

}  // namespace

void CpuOps::run_cross_entropy(Stream&, const Tensor& logits, const Tensor& targets, float scale,
                               const Tensor& loss, const Tensor& dlogits,
                               const Tensor& token_losses) {
  const auto run = HWY_DYNAMIC_DISPATCH(cross_entropy_rows);
  *loss.as<double>() =
      parallel_sum(threads_, logits.shape[0], [&](std::int64_t begin, std::int64_t end) {
        return run(logits, targets, scale, dlogits, token_losses, begin, end);
      });
}

void CpuOps::run_sum_losses(Stream&, const Tensor& token_losses, const Tensor& sum) {
  *sum.as<double>() = parallel_sum(threads_, token_losses.num_elements(),
                                   [&](std::int64_t begin, std::int64_t end) {
                                     double loss = 0;
                                     for (std::int64_t t = begin; t < end; ++t)
                                       loss += token_losses.as<double>()[t];
                                     return loss;
                                   });
}

void CpuOps::run_vocab_max(Stream&, const Tensor& logits, std::int64_t valid, const Tensor& max) {
  call_for_ranges(threads_, logits.shape[0], kRowGrain, HWY_DYNAMIC_DISPATCH(vocab_max_rows),
                  logits, valid, max);
}

void CpuOps::run_vocab_sums(Stream&, const Tensor& logits, const VocabColumns& columns,
                            const Tensor& targets, const Tensor& max, const Tensor& sums) {
  call_for_ranges(threads_, logits.shape[0], kRowGrain, HWY_DYNAMIC_DISPATCH(vocab_sums_rows),
                  logits, columns, targets, max, sums);
}

void CpuOps::run_vocab_loss(Stream&, const Tensor& exponentials, const VocabColumns& columns,
                            const Tensor& targets, const Tensor& sums, const VocabLoss& loss,
                            const Tensor& sum, const Tensor& dlogits, const Tensor& token_losses) {
  const auto run = HWY_DYNAMIC_DISPATCH(vocab_loss_rows);
  *sum.as<double>() =
      parallel_sum(threads_, exponentials.shape[0], [&](std::int64_t begin, std::int64_t end) {
        return run(exponentials, columns, targets, sums, loss, dlogits, token_losses, begin, end);
      });
}

}  // namespace troupe::tensor
#endif
