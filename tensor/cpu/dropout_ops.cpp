#include "tensor/cpu/cpu_ops.h"
#include "tensor/cpu/parallel.h"
#include "tensor/error.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/cpu/dropout_ops.cpp"
#include <hwy/foreach_target.h>

#include "tensor/cpu/philox-inl.h"
#include "tensor/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace troupe::tensor::HWY_NAMESPACE {

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
  with_type(x.dtype, [&](auto* type) HWY_ATTR {
    using T = std::remove_pointer_t<decltype(type)>;
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

constexpr std::int64_t kGrain = 8;  // rows

HWY_EXPORT(dropout_rows);

}  // namespace

void CpuOps::dropout(Stream&, const Dropout& dropout, const MatrixSlice& slice, const Tensor& x,
                     const Tensor& y, const Tensor& residual) {
  TROUPE_ASSERT(dropout.p >= 0 && dropout.p < 1);
  TROUPE_ASSERT(x.shape.rank() == 2 && slice.first_column + x.shape[1] <= slice.columns);
  TROUPE_ASSERT(y.num_elements() == x.num_elements() && y.dtype == x.dtype);
  TROUPE_ASSERT(!residual || residual.num_elements() == x.num_elements());
  TROUPE_ASSERT(!residual || residual.dtype == x.dtype);
  const auto run = HWY_DYNAMIC_DISPATCH(dropout_rows);
  parallel_ranges(threads_, x.shape[0], kGrain, [&](std::int64_t begin, std::int64_t end) {
    run(dropout, slice, x, residual, y, begin, end);
  });
}

}  // namespace troupe::tensor
#endif
