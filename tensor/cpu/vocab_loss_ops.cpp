#include <cmath>
#include <limits>

#include "tensor/cpu/cpu_ops.h"
#include "tensor/cpu/parallel.h"
#include "tensor/error.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/cpu/vocab_loss_ops.cpp"
#include <hwy/foreach_target.h>

#include "tensor/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace troupe::tensor::HWY_NAMESPACE {

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
    with_type(dlogits.dtype, [&](auto* type) HWY_ATTR {
      using T = std::remove_pointer_t<decltype(type)>;
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

HWY_EXPORT(vocab_max_rows);
HWY_EXPORT(vocab_sums_rows);
HWY_EXPORT(vocab_loss_rows);

void check_columns(const Tensor& logits, std::int64_t valid) {
  TROUPE_ASSERT(logits.dtype == DType::f32 && logits.shape.rank() == 2);
  TROUPE_ASSERT(valid >= 0 && valid <= logits.shape[1]);
}

void check_sums(const Tensor& sums, const Tensor& targets, std::int64_t rows) {
  TROUPE_ASSERT(targets.dtype == DType::i32 && targets.num_elements() == rows);
  TROUPE_ASSERT(sums.dtype == DType::f32 && sums.shape.rank() == 2 && sums.shape[1] == rows);
  TROUPE_ASSERT(sums.shape[0] == 2 || sums.shape[0] == 3);
}

}  // namespace

void CpuOps::vocab_max(Stream&, const Tensor& logits, std::int64_t valid, const Tensor& max) {
  check_columns(logits, valid);
  TROUPE_ASSERT(max.dtype == DType::f32 && max.num_elements() == logits.shape[0]);
  const auto run = HWY_DYNAMIC_DISPATCH(vocab_max_rows);
  parallel_ranges(threads_, logits.shape[0], kRowGrain, [&](std::int64_t begin, std::int64_t end) {
    run(logits, valid, max, begin, end);
  });
}

void CpuOps::vocab_sums(Stream&, const Tensor& logits, const VocabColumns& columns,
                        const Tensor& targets, const Tensor& max, const Tensor& sums) {
  check_columns(logits, columns.valid);
  check_sums(sums, targets, logits.shape[0]);
  TROUPE_ASSERT(max.dtype == DType::f32 && max.num_elements() == logits.shape[0]);
  const auto run = HWY_DYNAMIC_DISPATCH(vocab_sums_rows);
  parallel_ranges(threads_, logits.shape[0], kRowGrain, [&](std::int64_t begin, std::int64_t end) {
    run(logits, columns, targets, max, sums, begin, end);
  });
}

void CpuOps::vocab_loss(Stream&, const Tensor& exponentials, const VocabColumns& columns,
                        const Tensor& targets, const Tensor& sums, const VocabLoss& loss,
                        const Tensor& sum, const Tensor& dlogits, const Tensor& token_losses) {
  TROUPE_ASSERT(sum.dtype == DType::f64 && sum.num_elements() == 1);
  check_columns(exponentials, columns.valid);
  check_sums(sums, targets, exponentials.shape[0]);
  TROUPE_ASSERT(loss.smoothing == 0 || sums.shape[0] == 3);
  TROUPE_ASSERT(!dlogits || dlogits.num_elements() == exponentials.num_elements());
  TROUPE_ASSERT(!token_losses || (token_losses.dtype == DType::f64 &&
                                  token_losses.num_elements() == exponentials.shape[0]));
  for (std::int64_t t = 0; t < targets.num_elements(); ++t) {
    const std::int32_t target = targets.as<std::int32_t>()[t];
    TROUPE_ASSERT(target == loss.ignored || (target >= 0 && target < loss.classes));
  }
  const auto run = HWY_DYNAMIC_DISPATCH(vocab_loss_rows);
  *sum.as<double>() =
      parallel_sum(threads_, exponentials.shape[0], [&](std::int64_t begin, std::int64_t end) {
        return run(exponentials, columns, targets, sums, loss, dlogits, token_losses, begin, end);
      });
}

}  // namespace troupe::tensor
#endif
