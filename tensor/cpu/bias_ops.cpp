#include <algorithm>

#include "tensor/cpu/cpu_ops.h"
#include "tensor/cpu/parallel.h"
#include "tensor/error.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/cpu/bias_ops.cpp"
#include <hwy/foreach_target.h>

#include "tensor/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace troupe::tensor::HWY_NAMESPACE {

void add_bias_rows(const Tensor& b, const Tensor& residual, const Tensor& y, std::int64_t begin,
                   std::int64_t end) {
  with_type(y.dtype, [&](auto* type) HWY_ATTR {
    using T = std::remove_pointer_t<decltype(type)>;
    const std::int64_t channels = b.num_elements();
    for (std::int64_t t = begin; t < end; ++t) {
      T* row = y.as<T>() + t * channels;
      const T* before = residual ? residual.as<T>() + t * channels : nullptr;
      for_each_vector(channels, [&](std::int64_t c, std::int64_t n) HWY_ATTR {
        const auto biased = hn::Add(load(row + c, n), load(b.as<float>() + c, n));
        store(before ? hn::Add(biased, load(before + c, n)) : biased, row + c, n);
      });
    }
  });
}

// A strip is four cache lines of float32 wide, so that its sums stay in the innermost cache while
// the rows go by.
constexpr std::int64_t kStripColumns = 64;
constexpr std::int64_t kBlockRows = 64;

HWY_INLINE void add_to(const float* x, std::int64_t count, float* sum) {
  for_each_vector(count, [&](std::int64_t c, std::int64_t n) HWY_ATTR {
    store(hn::Add(load(sum + c, n), load(x + c, n)), sum + c, n);
  });
}

/// Adds `rows` rows of x, `stride` apart, to sum. A block of rows is summed apart, which keeps the
/// error of a long sum small.
template <typename T>
HWY_INLINE void add_strip(const T* x, std::int64_t rows, std::int64_t stride, std::int64_t columns,
                          float* sum) {
  for (std::int64_t first = 0; first < rows; first += kBlockRows) {
    float block[kStripColumns] = {};
    for (std::int64_t t = first; t < std::min(rows, first + kBlockRows); ++t) {
      for_each_vector(columns, [&](std::int64_t c, std::int64_t n) HWY_ATTR {
        store(hn::Add(load(block + c, n), load(x + t * stride + c, n)), block + c, n);
      });
    }
    add_to(block, columns, sum);
  }
}

void bias_gradient_columns(const Tensor& dy, Gradient gradient, const Tensor& db,
                           std::int64_t begin, std::int64_t end) {
  with_type(dy.dtype, [&](auto* type) HWY_ATTR {
    using T = std::remove_pointer_t<decltype(type)>;
    const std::int64_t channels = db.num_elements(), rows = dy.num_elements() / channels;
    for (std::int64_t c = begin; c < end; c += kStripColumns) {
      const std::int64_t columns = std::min(kStripColumns, end - c);
      float sum[kStripColumns] = {};
      add_strip(dy.as<T>() + c, rows, channels, columns, sum);
      float* to = db.as<float>() + c;
      if (gradient == Gradient::added) add_to(sum, columns, to);
      if (gradient == Gradient::first) std::copy_n(sum, columns, to);
    }
  });
}

}  // namespace troupe::tensor::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::tensor {
namespace {

constexpr std::int64_t kRowGrain = 8;
constexpr std::int64_t kColumnGrain = 64;  // a strip

HWY_EXPORT(add_bias_rows);
HWY_EXPORT(bias_gradient_columns);

}  // namespace

void CpuOps::add_bias(Stream&, const Tensor& b, const Tensor& y, const Tensor& residual) {
  const std::int64_t channels = b.num_elements(), rows = y.num_elements() / channels;
  TROUPE_ASSERT(b.dtype == DType::f32 && y.num_elements() == rows * channels);
  TROUPE_ASSERT(!residual || residual.dtype == y.dtype);
  TROUPE_ASSERT(!residual || residual.num_elements() == y.num_elements());
  const auto run = HWY_DYNAMIC_DISPATCH(add_bias_rows);
  parallel_ranges(threads_, rows, kRowGrain,
                  [&](std::int64_t begin, std::int64_t end) { run(b, residual, y, begin, end); });
}

// Threads split the columns, so that the order of a column's sum depends on its length alone.
void CpuOps::bias_gradient(Stream&, const Tensor& dy, const Tensor& db, Gradient gradient) {
  const std::int64_t channels = db.num_elements();
  TROUPE_ASSERT(db.dtype == DType::f32 && dy.num_elements() % channels == 0);
  const auto run = HWY_DYNAMIC_DISPATCH(bias_gradient_columns);
  parallel_ranges(threads_, channels, kColumnGrain,
                  [&](std::int64_t begin, std::int64_t end) { run(dy, gradient, db, begin, end); });
}

}  // namespace troupe::tensor
#endif
