#include <algorithm>
#include <cmath>

#include "tensor/cpu/loops/parallel.h"
#include "tensor/cpu/ops/cpu_ops.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/cpu/ops/norm_ops.cpp"
#include <hwy/foreach_target.h>

#include "tensor/cpu/loops/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace troupe::tensor::HWY_NAMESPACE {

/// 1 / the root of a mean of squares.
HWY_INLINE float rstd_of(float squares, std::int64_t channels, float eps) {
  return 1.0f / std::sqrt(squares / static_cast<float>(channels) + eps);
}

/// Calls body(t, element at which the head begins) for the heads of rows begin ... end - 1.
template <typename Body>
HWY_INLINE void for_each_head(const Tensor& x, const HeadColumns& heads, std::int64_t begin,
                              std::int64_t end, const Body& body) {
  for (std::int64_t t = begin; t < end; ++t) {
    const std::int64_t row = t * x.shape[1] + heads.first;
    for (std::int64_t h = 0; h < heads.heads; ++h) body(t, row + h * heads.dim);
  }
}

template <typename T>
HWY_INLINE float sum_of_squares(const T* x, std::int64_t channels) {
  auto squares = zero();
  for_each_vector(channels, [&](std::int64_t c, std::int64_t n) HWY_ATTR {
    const auto v = load(x + c, n);
    squares = hn::MulAdd(v, v, squares);
  });
  return sum_of_lanes(squares);
}

/// Weights of a norm that stand for plus + w.
struct NormWeights {
  const float* w;
  float plus;

  HWY_INLINE Vector at(std::int64_t c, std::int64_t n) const {
    return hn::Add(load(w + c, n), constant(plus));
  }
};

template <typename T>
HWY_INLINE void scale_normed(const T* x, NormWeights w, float rstd, std::int64_t channels, T* y) {
  const auto scale = constant(rstd);
  for_each_vector(channels, [&](std::int64_t c, std::int64_t n) HWY_ATTR {
    store(hn::Mul(hn::Mul(load(x + c, n), scale), w.at(c, n)), y + c, n);
  });
}

/// The sum of dy * (plus + w) * x.
template <typename T>
HWY_INLINE float dot_of(const T* dy, const T* x, NormWeights w, std::int64_t channels) {
  auto dot = zero();
  for_each_vector(channels, [&](std::int64_t c, std::int64_t n) HWY_ATTR {
    dot = hn::MulAdd(hn::Mul(load(dy + c, n), w.at(c, n)), load(x + c, n), dot);
  });
  return sum_of_lanes(dot);
}

/// Backward of one row. With n = x * rstd and g = dy * w: dx = residual + rstd * (g - n * mean_gn),
/// where mean_gn is the mean of g * n; dw += dy * n.
template <typename T>
HWY_INLINE void rms_norm_backward_row(const T* dy, const T* x, NormWeights w, float rstd,
                                      float mean_gn, const T* residual, std::int64_t channels,
                                      T* dx, float* dw) {
  const auto scale = constant(rstd), mean = constant(mean_gn);
  for_each_vector(channels, [&](std::int64_t c, std::int64_t n) HWY_ATTR {
    const auto gradient = load(dy + c, n);
    const auto normed = hn::Mul(load(x + c, n), scale);
    const auto inner = hn::NegMulAdd(normed, mean, hn::Mul(gradient, w.at(c, n)));
    const auto before = residual ? load(residual + c, n) : zero();
    store(hn::MulAdd(inner, scale, before), dx + c, n);
    store(hn::MulAdd(gradient, normed, load(dw + c, n)), dw + c, n);
  });
}

void rms_norm_rows(const Tensor& x, const Tensor& w, float eps, float plus, const Tensor& y,
                   const Tensor& rstd, std::int64_t begin, std::int64_t end) {
  with_type(x.dtype, [&]<typename T>(T*) HWY_ATTR {
    const std::int64_t channels = w.num_elements();
    for (std::int64_t t = begin; t < end; ++t) {
      const T* row = x.as<T>() + t * channels;
      float& scale = rstd.as<float>()[t];
      scale = rstd_of(sum_of_squares(row, channels), channels, eps);
      scale_normed(row, {w.as<float>(), plus}, scale, channels, y.as<T>() + t * channels);
    }
  });
}

void rms_norm_backward_rows(const Tensor& dy, const Tensor& x, const Tensor& w, float plus,
                            const Tensor& rstd, const Tensor& residual, const Tensor& dx, float* dw,
                            std::int64_t begin, std::int64_t end) {
  with_type(x.dtype, [&]<typename T>(T*) HWY_ATTR {
    const std::int64_t channels = w.num_elements();
    const NormWeights weights{w.as<float>(), plus};
    for (std::int64_t t = begin; t < end; ++t) {
      const std::int64_t row = t * channels;
      const T *gradient = dy.as<T>() + row, *from = x.as<T>() + row;
      const float scale = rstd.as<float>()[t];
      const float mean =
          dot_of(gradient, from, weights, channels) * scale / static_cast<float>(channels);
      rms_norm_backward_row(gradient, from, weights, scale, mean,
                            residual ? residual.as<T>() + row : nullptr, channels, dx.as<T>() + row,
                            dw);
    }
  });
}

void head_norm_rows(const Tensor& x, const HeadColumns& heads, const Tensor& w, float eps,
                    float plus, const Tensor& y, const Tensor& squares, std::int64_t width,
                    std::int64_t begin, std::int64_t end) {
  with_type(x.dtype, [&]<typename T>(T*) HWY_ATTR {
    for_each_head(x, heads, begin, end, [&](std::int64_t t, std::int64_t at) HWY_ATTR {
      const T* head = x.as<T>() + at;
      const float sum = squares ? squares.as<float>()[t] : sum_of_squares(head, heads.dim);
      scale_normed(head, {w.as<float>(), plus}, rstd_of(sum, width, eps), heads.dim,
                   y.as<T>() + at);
    });
  });
}

void head_norm_backward_rows(const Tensor& dy, const Tensor& x, const HeadColumns& heads,
                             const Tensor& w, float eps, float plus, const Tensor& dx,
                             const Tensor& squares, const Tensor& dots, std::int64_t width,
                             float* dw, std::int64_t begin, std::int64_t end) {
  const NormWeights weights{w.as<float>(), plus};
  with_type(x.dtype, [&]<typename T>(T*) HWY_ATTR {
    for_each_head(x, heads, begin, end, [&](std::int64_t t, std::int64_t at) HWY_ATTR {
      const T *gradient = dy.as<T>() + at, *head = x.as<T>() + at;
      const float sum = squares ? squares.as<float>()[t] : sum_of_squares(head, heads.dim);
      const float dot = dots ? dots.as<float>()[t] : dot_of(gradient, head, weights, heads.dim);
      const float rstd = rstd_of(sum, width, eps);
      rms_norm_backward_row<T>(gradient, head, weights, rstd,
                               dot * rstd / static_cast<float>(width), nullptr, heads.dim,
                               dx.as<T>() + at, dw);
    });
  });
}

void head_squares_rows(const Tensor& x, const HeadColumns& columns, const Tensor& squares,
                       std::int64_t begin, std::int64_t end) {
  with_type(x.dtype, [&]<typename T>(T*) HWY_ATTR {
    for_each_head(x, columns, begin, end, [&](std::int64_t t, std::int64_t at) HWY_ATTR {
      squares.as<float>()[t] = sum_of_squares(x.as<T>() + at, columns.dim);
    });
  });
}

void head_dots_rows(const Tensor& dy, const Tensor& x, const HeadColumns& columns, const Tensor& w,
                    float plus, const Tensor& dots, std::int64_t begin, std::int64_t end) {
  with_type(x.dtype, [&]<typename T>(T*) HWY_ATTR {
    for_each_head(x, columns, begin, end, [&](std::int64_t t, std::int64_t at) HWY_ATTR {
      dots.as<float>()[t] =
          dot_of(dy.as<T>() + at, x.as<T>() + at, {w.as<float>(), plus}, columns.dim);
    });
  });
}

/// The variance is summed around the mean, in a second pass over the row in the cache: the
/// difference of the mean square and the squared mean would lose digits.
template <typename T>
HWY_INLINE void layer_norm_row(const T* x, const float* w, const float* b, float eps,
                               std::int64_t channels, T* y, float& mean, float& rstd) {
  auto sum = zero();
  for_each_vector(channels, [&](std::int64_t c, std::int64_t n)
                                HWY_ATTR { sum = hn::Add(sum, load(x + c, n)); });
  mean = sum_of_lanes(sum) / static_cast<float>(channels);
  const auto center = constant(mean);
  auto squares = zero();
  for_each_vector(channels, [&](std::int64_t c, std::int64_t n) HWY_ATTR {
    const auto v = first_n(hn::Sub(load(x + c, n), center), n);
    squares = hn::MulAdd(v, v, squares);
  });
  rstd = rstd_of(sum_of_lanes(squares), channels, eps);
  const auto scale = constant(rstd);
  for_each_vector(channels, [&](std::int64_t c, std::int64_t n) HWY_ATTR {
    const auto normed = hn::Mul(hn::Sub(load(x + c, n), center), scale);
    store(hn::MulAdd(normed, load(w + c, n), load(b + c, n)), y + c, n);
  });
}

/// Backward of one row. With n = (x - mean) * rstd and g = dy * w: dx = residual + rstd * (g -
/// mean(g) - n * mean(g * n)), dw += dy * n, db += dy.
template <typename T>
HWY_INLINE void layer_norm_backward_row(const T* dy, const T* x, const float* w, float mean,
                                        float rstd, const T* residual, std::int64_t channels, T* dx,
                                        float* dw, float* db) {
  const auto center = constant(mean), scale = constant(rstd);
  auto sum = zero(), dot = zero();
  for_each_vector(channels, [&](std::int64_t c, std::int64_t n) HWY_ATTR {
    const auto g = hn::Mul(load(dy + c, n), load(w + c, n));
    sum = hn::Add(sum, g);
    dot = hn::MulAdd(g, hn::Mul(hn::Sub(load(x + c, n), center), scale), dot);
  });
  const auto mean_g = constant(sum_of_lanes(sum) / static_cast<float>(channels));
  const auto mean_gn = constant(sum_of_lanes(dot) / static_cast<float>(channels));
  for_each_vector(channels, [&](std::int64_t c, std::int64_t n) HWY_ATTR {
    const auto gradient = load(dy + c, n);
    const auto normed = hn::Mul(hn::Sub(load(x + c, n), center), scale);
    const auto centered = hn::MulSub(gradient, load(w + c, n), mean_g);
    const auto before = residual ? load(residual + c, n) : zero();
    store(hn::MulAdd(hn::NegMulAdd(normed, mean_gn, centered), scale, before), dx + c, n);
    store(hn::MulAdd(gradient, normed, load(dw + c, n)), dw + c, n);
    store(hn::Add(load(db + c, n), gradient), db + c, n);
  });
}

void layer_norm_rows(const Tensor& x, const Tensor& w, const Tensor& b, float eps, const Tensor& y,
                     const Tensor& mean, const Tensor& rstd, std::int64_t begin, std::int64_t end) {
  with_type(x.dtype, [&]<typename T>(T*) HWY_ATTR {
    const std::int64_t channels = w.num_elements();
    for (std::int64_t t = begin; t < end; ++t) {
      layer_norm_row(x.as<T>() + t * channels, w.as<float>(), b.as<float>(), eps, channels,
                     y.as<T>() + t * channels, mean.as<float>()[t], rstd.as<float>()[t]);
    }
  });
}

void layer_norm_backward_rows(const Tensor& dy, const Tensor& x, const Tensor& w,
                              const Tensor& mean, const Tensor& rstd, const Tensor& residual,
                              const Tensor& dx, float* dw, float* db, std::int64_t begin,
                              std::int64_t end) {
  with_type(x.dtype, [&]<typename T>(T*) HWY_ATTR {
    const std::int64_t channels = w.num_elements();
    for (std::int64_t t = begin; t < end; ++t) {
      const std::int64_t row = t * channels;
      layer_norm_backward_row(dy.as<T>() + row, x.as<T>() + row, w.as<float>(), mean.as<float>()[t],
                              rstd.as<float>()[t], residual ? residual.as<T>() + row : nullptr,
                              channels, dx.as<T>() + row, dw, db);
    }
  });
}

}  // namespace troupe::tensor::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::tensor {
namespace {

constexpr std::int64_t kGrain = 8;          // rows
constexpr std::int64_t kColumnGrain = 16;   // a cache line: no two threads write to the same one
constexpr std::int64_t kMostPartials = 32;  // sums of dw and db, each over a range of rows

HWY_EXPORT(rms_norm_rows);
HWY_EXPORT(rms_norm_backward_rows);
HWY_EXPORT(head_norm_rows);
HWY_EXPORT(head_norm_backward_rows);
HWY_EXPORT(head_squares_rows);
HWY_EXPORT(head_dots_rows);
HWY_EXPORT(layer_norm_rows);
HWY_EXPORT(layer_norm_backward_rows);

/// sum[c] = the sum over r of partial[r * stride + c], r ascending, for c in [begin, end).
void add_partials(const float* partial, std::int64_t ranges, std::int64_t stride,
                  std::int64_t begin, std::int64_t end, float* sum) {
  std::copy_n(partial + begin, end - begin, sum + begin);
  for (std::int64_t r = 1; r < ranges; ++r) {
    for (std::int64_t c = begin; c < end; ++c) sum[c] += partial[r * stride + c];
  }
}

/// Ranges of rows that depend on their number alone, and with them the bits of sums over rows.
std::int64_t ranges_of(std::int64_t rows) {
  return std::clamp<std::int64_t>(rows / kGrain, 1, kMostPartials);
}

/// The columns over which the mean is, `width` of all shards if they have added their sums.
std::int64_t columns_of(const HeadColumns& heads, const Tensor& squares, std::int64_t width) {
  return squares ? width : heads.dim;
}

}  // namespace

void CpuOps::run_rms_norm(Stream&, const Tensor& x, const Tensor& w, float eps, float plus,
                          const Tensor& y, const Tensor& rstd) {
  call_for_ranges(threads_, rstd.num_elements(), kGrain, HWY_DYNAMIC_DISPATCH(rms_norm_rows), x, w,
                  eps, plus, y, rstd);
}

void CpuOps::run_rms_norm_backward(Stream&, const Tensor& dy, const Tensor& x, const Tensor& w,
                                   float plus, const Tensor& rstd, const Tensor& residual,
                                   const Tensor& dx, const Tensor& dw) {
  const std::int64_t rows = rstd.num_elements(), channels = w.num_elements();
  const auto run = HWY_DYNAMIC_DISPATCH(rms_norm_backward_rows);
  // One partial dw per range of rows, added in ascending order of the ranges.
  const std::int64_t ranges = threads_;
  float* partial = scratch(ranges * channels);
  parallel_ranges(threads_, ranges, 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) {
      std::fill_n(partial + i * channels, channels, 0.0f);
      run(dy, x, w, plus, rstd, residual, dx, partial + i * channels, rows * i / ranges,
          rows * (i + 1) / ranges);
    }
  });
  add_partials(partial, ranges, channels, 0, channels, dw.as<float>());
}

void CpuOps::run_head_norm(Stream&, const Tensor& x, const HeadColumns& heads, const Tensor& w,
                           float eps, float plus, const Tensor& y, const Tensor& squares,
                           std::int64_t width) {
  call_for_ranges(threads_, x.shape[0], kGrain, HWY_DYNAMIC_DISPATCH(head_norm_rows), x, heads, w,
                  eps, plus, y, squares, columns_of(heads, squares, width));
}

void CpuOps::run_head_norm_backward(Stream&, const Tensor& dy, const Tensor& x,
                                    const HeadColumns& heads, const Tensor& w, float eps,
                                    float plus, const Tensor& dx, const Tensor& dw,
                                    const Tensor& squares, const Tensor& dots, std::int64_t width) {
  const std::int64_t rows = x.shape[0], ranges = ranges_of(rows);
  const auto run = HWY_DYNAMIC_DISPATCH(head_norm_backward_rows);
  float* partial = scratch(ranges * heads.dim);
  parallel_ranges(threads_, ranges, 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) {
      float* sums = partial + i * heads.dim;
      std::fill_n(sums, heads.dim, 0.0f);
      run(dy, x, heads, w, eps, plus, dx, squares, dots, columns_of(heads, squares, width), sums,
          rows * i / ranges, rows * (i + 1) / ranges);
    }
  });
  add_partials(partial, ranges, heads.dim, 0, heads.dim, dw.as<float>());
}

void CpuOps::run_head_squares(Stream&, const Tensor& x, const HeadColumns& columns,
                              const Tensor& squares) {
  call_for_ranges(threads_, x.shape[0], kGrain, HWY_DYNAMIC_DISPATCH(head_squares_rows), x, columns,
                  squares);
}

void CpuOps::run_head_dots(Stream&, const Tensor& dy, const Tensor& x, const HeadColumns& columns,
                           const Tensor& w, float plus, const Tensor& dots) {
  call_for_ranges(threads_, x.shape[0], kGrain, HWY_DYNAMIC_DISPATCH(head_dots_rows), dy, x,
                  columns, w, plus, dots);
}

float* CpuOps::scratch(std::int64_t elements) {
  const auto bytes = static_cast<std::size_t>(elements) * sizeof(float);
  if (bytes > scratch_.bytes()) scratch_ = device_.allocate(bytes, MemoryKind::host);
  return static_cast<float*>(scratch_.data());
}

void CpuOps::run_layer_norm(Stream&, const Tensor& x, const Tensor& w, const Tensor& b, float eps,
                            const Tensor& y, const Tensor& mean, const Tensor& rstd) {
  call_for_ranges(threads_, rstd.num_elements(), kGrain, HWY_DYNAMIC_DISPATCH(layer_norm_rows), x,
                  w, b, eps, y, mean, rstd);
}

void CpuOps::run_layer_norm_backward(Stream&, const Tensor& dy, const Tensor& x, const Tensor& w,
                                     const Tensor& mean, const Tensor& rstd, const Tensor& residual,
                                     const Tensor& dx, const Tensor& dw, const Tensor& db) {
  const std::int64_t rows = rstd.num_elements(), channels = w.num_elements();
  const auto run = HWY_DYNAMIC_DISPATCH(layer_norm_backward_rows);
  const std::int64_t ranges = ranges_of(rows);
  const std::int64_t stride = 2 * channels;  // dw, then db
  float* partial = scratch(ranges * stride);
  parallel_ranges(threads_, ranges, 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) {
      float* sums = partial + i * stride;
      std::fill_n(sums, stride, 0.0f);
      run(dy, x, w, mean, rstd, residual, dx, sums, sums + channels, rows * i / ranges,
          rows * (i + 1) / ranges);
    }
  });
  parallel_ranges(threads_, channels, kColumnGrain, [&](std::int64_t begin, std::int64_t end) {
    add_partials(partial, ranges, stride, begin, end, dw.as<float>());
    add_partials(partial + channels, ranges, stride, begin, end, db.as<float>());
  });
}

}  // namespace troupe::tensor
#endif
