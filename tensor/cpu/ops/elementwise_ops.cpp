#include <algorithm>
#include <cstring>

#include "tensor/cpu/loops/parallel.h"
#include "tensor/cpu/ops/cpu_ops.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/cpu/ops/elementwise_ops.cpp"
#include <hwy/foreach_target.h>

#include "tensor/cpu/loops/philox-inl.h"
#include "tensor/cpu/loops/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace troupe::tensor::HWY_NAMESPACE {

void convert_range(const Tensor& src, const Tensor& dst, std::int64_t begin, std::int64_t end) {
  with_type(src.dtype, [&]<typename Src>(Src*) HWY_ATTR {
    with_type(dst.dtype, [&]<typename Dst>(Dst*) HWY_ATTR {
      const Src* from = src.as<Src>() + begin;
      Dst* to = dst.as<Dst>() + begin;
      for_each_vector(end - begin, [&](std::int64_t i, std::int64_t n)
                                       HWY_ATTR { store(load(from + i, n), to + i, n); });
    });
  });
}

void add_range(const Tensor& x, const Tensor& y, std::int64_t begin, std::int64_t end) {
  with_type(y.dtype, [&]<typename T>(T*) HWY_ATTR {
    const T* added = x.as<T>() + begin;
    T* sum = y.as<T>() + begin;
    for_each_vector(end - begin, [&](std::int64_t i, std::int64_t n) HWY_ATTR {
      store(hn::Add(load(sum + i, n), load(added + i, n)), sum + i, n);
    });
  });
}

void add_bias_rows(const Tensor& b, const Tensor& residual, const Tensor& y, std::int64_t begin,
                   std::int64_t end) {
  with_type(y.dtype, [&]<typename T>(T*) HWY_ATTR {
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
  with_type(dy.dtype, [&]<typename T>(T*) HWY_ATTR {
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

template <typename T>
HWY_INLINE void dropout_row(const Dropout& dropout, std::uint64_t first, const T* x,
                            const T* residual, std::int64_t count, T* y) {
  const auto scale = constant(dropout.scale());
  for_each_draw(dropout.key, first, count,
                [&](std::int64_t i, std::int64_t n, auto words) HWY_ATTR {
                  const auto kept = drop(dropout, words, hn::Mul(load(x + i, n), scale));
                  store(residual ? hn::Add(kept, load(residual + i, n)) : kept, y + i, n);
                });
}

void dropout_rows(const Dropout& dropout, const MatrixSlice& slice, const Tensor& x,
                  const Tensor& residual, const Tensor& y, std::int64_t begin, std::int64_t end) {
  with_type(x.dtype, [&]<typename T>(T*) HWY_ATTR {
    const std::int64_t columns = x.shape[1];
    for (std::int64_t r = begin; r < end; ++r) {
      const std::int64_t row = r * columns;
      dropout_row(dropout, slice.index(r, 0), x.as<T>() + row,
                  residual ? residual.as<T>() + row : nullptr, columns, y.as<T>() + row);
    }
  });
}

}  // namespace troupe::tensor::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::tensor {
namespace {

// In elements. For fewer, starting threads costs more than it saves.
constexpr std::int64_t kGrain = 4096;
constexpr std::int64_t kRowGrain = 8;
constexpr std::int64_t kColumnGrain = 64;  // a strip

HWY_EXPORT(convert_range);
HWY_EXPORT(add_range);
HWY_EXPORT(add_bias_rows);
HWY_EXPORT(bias_gradient_columns);
HWY_EXPORT(dropout_rows);

}  // namespace

void CpuOps::run_fill_zero(Stream&, const Tensor& x) {
  const auto size = static_cast<std::int64_t>(size_of(x.dtype));
  parallel_ranges(threads_, x.num_elements(), kGrain, [&](std::int64_t begin, std::int64_t end) {
    std::memset(x.as<std::byte>() + begin * size, 0,
                static_cast<std::size_t>((end - begin) * size));
  });
}

void CpuOps::run_copy(Stream&, const Tensor& src, const Tensor& dst) {
  const auto size = static_cast<std::int64_t>(size_of(src.dtype));
  const auto convert = HWY_DYNAMIC_DISPATCH(convert_range);
  parallel_ranges(threads_, src.num_elements(), kGrain, [&](std::int64_t begin, std::int64_t end) {
    if (src.dtype != dst.dtype) return convert(src, dst, begin, end);
    std::memcpy(dst.as<std::byte>() + begin * size, src.as<std::byte>() + begin * size,
                static_cast<std::size_t>((end - begin) * size));
  });
}

void CpuOps::run_accumulate(Stream&, const Tensor& x, const Tensor& y) {
  call_for_ranges(threads_, x.num_elements(), kGrain, HWY_DYNAMIC_DISPATCH(add_range), x, y);
}

void CpuOps::run_copy_columns(Stream&, const Tensor& src, std::int64_t from, const Tensor& dst,
                              std::int64_t to, std::int64_t count) {
  if (count == 0) return;
  const auto size = static_cast<std::int64_t>(size_of(src.dtype));
  const std::int64_t grain = std::max<std::int64_t>(1, kGrain / count);
  parallel_ranges(threads_, src.shape[0], grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      std::memcpy(dst.as<std::byte>() + (t * dst.shape[1] + to) * size,
                  src.as<std::byte>() + (t * src.shape[1] + from) * size,
                  static_cast<std::size_t>(count * size));
    }
  });
}

void CpuOps::run_add_bias(Stream&, const Tensor& b, const Tensor& y, const Tensor& residual) {
  call_for_ranges(threads_, y.shape[0], kRowGrain, HWY_DYNAMIC_DISPATCH(add_bias_rows), b, residual,
                  y);
}

// Threads split the columns, so that the order of a column's sum depends on its length alone.
void CpuOps::run_bias_gradient(Stream&, const Tensor& dy, const Tensor& db, Gradient gradient) {
  call_for_ranges(threads_, db.num_elements(), kColumnGrain,
                  HWY_DYNAMIC_DISPATCH(bias_gradient_columns), dy, gradient, db);
}

void CpuOps::run_dropout(Stream&, const Dropout& dropout, const MatrixSlice& slice, const Tensor& x,
                         const Tensor& y, const Tensor& residual) {
  call_for_ranges(threads_, x.shape[0], kRowGrain, HWY_DYNAMIC_DISPATCH(dropout_rows), dropout,
                  slice, x, residual, y);
}

}  // namespace troupe::tensor
#endif
