#include <cmath>
#include <cstring>

#include "tensor/cpu/cpu_ops.h"
#include "tensor/cpu/parallel.h"
#include "tensor/error.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/cpu/loss_ops.cpp"
#include <hwy/foreach_target.h>

#include "tensor/cpu/simd-inl.h"

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
    with_type(dlogits.dtype, [&](auto* type) HWY_ATTR {
      using T = std::remove_pointer_t<decltype(type)>;
      softmax_gradient_row(row, normalizer, target, scale, vocabulary,
                           dlogits.as<T>() + t * vocabulary);
    });
  }
  return loss;
}

}  // namespace troupe::tensor::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::tensor {
namespace {

HWY_EXPORT(cross_entropy_rows);

}  // namespace

void CpuOps::cross_entropy(Stream&, const Tensor& logits, const Tensor& targets, float scale,
                           const Tensor& loss, const Tensor& dlogits, const Tensor& token_losses) {
  TROUPE_ASSERT(loss.dtype == DType::f64 && loss.num_elements() == 1);
  TROUPE_ASSERT(logits.dtype == DType::f32 && logits.shape.rank() == 2);
  TROUPE_ASSERT(targets.dtype == DType::i32 && targets.num_elements() == logits.shape[0]);
  TROUPE_ASSERT(!dlogits || dlogits.num_elements() == logits.num_elements());
  TROUPE_ASSERT(!token_losses || (token_losses.dtype == DType::f64 &&
                                  token_losses.num_elements() == logits.shape[0]));
  for (std::int64_t t = 0; t < targets.num_elements(); ++t) {
    const std::int32_t target = targets.as<std::int32_t>()[t];
    TROUPE_ASSERT(target == kNoTarget || (target >= 0 && target < logits.shape[1]));
  }
  const auto run = HWY_DYNAMIC_DISPATCH(cross_entropy_rows);
  *loss.as<double>() =
      parallel_sum(threads_, logits.shape[0], [&](std::int64_t begin, std::int64_t end) {
        return run(logits, targets, scale, dlogits, token_losses, begin, end);
      });
}

}  // namespace troupe::tensor
#endif
