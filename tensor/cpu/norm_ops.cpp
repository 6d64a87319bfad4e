#include <cmath>

#include "tensor/cpu/cpu_ops.h"
#include "tensor/cpu/parallel.h"
#include "tensor/error.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/cpu/norm_ops.cpp"
#include <hwy/foreach_target.h>

#include "tensor/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace troupe::tensor::HWY_NAMESPACE {

template <typename T>
HWY_INLINE void rms_norm_row(const T* x, const float* w, float eps, std::int64_t channels, T* y,
                             float& rstd) {
  auto squares = zero();
  for_each_vector(channels, [&](std::int64_t c, std::int64_t n) HWY_ATTR {
    const auto v = load(x + c, n);
    squares = hn::MulAdd(v, v, squares);
  });
  rstd = 1.0f / std::sqrt(sum_of_lanes(squares) / static_cast<float>(channels) + eps);
  const auto scale = constant(rstd);
  for_each_vector(channels, [&](std::int64_t c, std::int64_t n) HWY_ATTR {
    store(hn::Mul(hn::Mul(load(x + c, n), scale), load(w + c, n)), y + c, n);
  });
}

/// Backward of one row. With n = x * rstd and g = dy * w: dx = residual + rstd * (g - n * mean(g *
/// n)), dw += dy * n.
template <typename T>
HWY_INLINE void rms_norm_backward_row(const T* dy, const T* x, const float* w, float rstd,
                                      const T* residual, std::int64_t channels, T* dx, float* dw) {
  auto dot = zero();
  for_each_vector(channels, [&](std::int64_t c, std::int64_t n) HWY_ATTR {
    dot = hn::MulAdd(hn::Mul(load(dy + c, n), load(w + c, n)), load(x + c, n), dot);
  });
  const auto scale = constant(rstd);
  const auto mean = constant(sum_of_lanes(dot) * rstd / static_cast<float>(channels));
  for_each_vector(channels, [&](std::int64_t c, std::int64_t n) HWY_ATTR {
    const auto gradient = load(dy + c, n);
    const auto normed = hn::Mul(load(x + c, n), scale);
    const auto inner = hn::NegMulAdd(normed, mean, hn::Mul(gradient, load(w + c, n)));
    const auto before = residual ? load(residual + c, n) : zero();
    store(hn::MulAdd(inner, scale, before), dx + c, n);
    store(hn::MulAdd(gradient, normed, load(dw + c, n)), dw + c, n);
  });
}

void rms_norm_rows(const Tensor& x, const Tensor& w, float eps, const Tensor& y, const Tensor& rstd,
                   std::int64_t begin, std::int64_t end) {
  with_type(x.dtype, [&](auto* type) HWY_ATTR {
    using T = std::remove_pointer_t<decltype(type)>;
    const std::int64_t channels = w.num_elements();
    for (std::int64_t t = begin; t < end; ++t) {
      rms_norm_row(x.as<T>() + t * channels, w.as<float>(), eps, channels, y.as<T>() + t * channels,
                   rstd.as<float>()[t]);
    }
  });
}

void rms_norm_backward_rows(const Tensor& dy, const Tensor& x, const Tensor& w, const Tensor& rstd,
                            const Tensor& residual, const Tensor& dx, float* dw, std::int64_t begin,
                            std::int64_t end) {
  with_type(x.dtype, [&](auto* type) HWY_ATTR {
    using T = std::remove_pointer_t<decltype(type)>;
    const std::int64_t channels = w.num_elements();
    for (std::int64_t t = begin; t < end; ++t) {
      const std::int64_t row = t * channels;
      rms_norm_backward_row(dy.as<T>() + row, x.as<T>() + row, w.as<float>(), rstd.as<float>()[t],
                            residual ? residual.as<T>() + row : nullptr, channels, dx.as<T>() + row,
                            dw);
    }
  });
}

}  // namespace troupe::tensor::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::tensor {
namespace {

constexpr std::int64_t kGrain = 8;  // rows

HWY_EXPORT(rms_norm_rows);
HWY_EXPORT(rms_norm_backward_rows);

}  // namespace

void CpuOps::rms_norm(Stream&, const Tensor& x, const Tensor& w, float eps, const Tensor& y,
                      const Tensor& rstd) {
  const std::int64_t rows = rstd.num_elements();
  TROUPE_ASSERT(x.num_elements() == rows * w.num_elements() && x.dtype == y.dtype);
  TROUPE_ASSERT(y.num_elements() == x.num_elements());
  const auto run = HWY_DYNAMIC_DISPATCH(rms_norm_rows);
  parallel_ranges(threads_, rows, kGrain, [&](std::int64_t begin, std::int64_t end) {
    run(x, w, eps, y, rstd, begin, end);
  });
}

void CpuOps::rms_norm_backward(Stream&, const Tensor& dy, const Tensor& x, const Tensor& w,
                               const Tensor& rstd, const Tensor& residual, const Tensor& dx,
                               const Tensor& dw) {
  const std::int64_t rows = rstd.num_elements(), channels = w.num_elements();
  TROUPE_ASSERT(x.num_elements() == rows * channels && dw.num_elements() == channels);
  TROUPE_ASSERT(dy.dtype == x.dtype && dx.dtype == x.dtype);
  TROUPE_ASSERT(!residual || residual.dtype == x.dtype);
  const auto run = HWY_DYNAMIC_DISPATCH(rms_norm_backward_rows);
  // One partial dw per range of rows, added in ascending order of the ranges.
  const std::int64_t ranges = threads_;
  float* partial = scratch(ranges * channels);
  parallel_ranges(threads_, ranges, 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) {
      std::fill_n(partial + i * channels, channels, 0.0f);
      run(dy, x, w, rstd, residual, dx, partial + i * channels, rows * i / ranges,
          rows * (i + 1) / ranges);
    }
  });
  float* sum = dw.as<float>();
  std::copy_n(partial, channels, sum);
  for (std::int64_t i = 1; i < ranges; ++i) {
    for (std::int64_t c = 0; c < channels; ++c) sum[c] += partial[i * channels + c];
  }
}

float* CpuOps::scratch(std::int64_t elements) {
  const auto bytes = static_cast<std::size_t>(elements) * sizeof(float);
  if (bytes > scratch_.bytes()) scratch_ = device_.allocate(bytes, MemoryKind::host);
  return static_cast<float*>(scratch_.data());
}

}  // namespace troupe::tensor
#endif
