#include <algorithm>
#include <cstring>

#include "tensor/cpu/loops/parallel.h"
#include "tensor/cpu/ops/cpu_ops.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/cpu/ops/expert_ops.cpp"
#include <hwy/foreach_target.h>

#include "tensor/cpu/loops/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace troupe::tensor::HWY_NAMESPACE {

void sum_token_rows(const Tensor& x, const Tensor& row_of, const Tensor& y, const Tensor& residual,
                    std::int64_t begin, std::int64_t end) {
  const std::int64_t columns = y.shape[1], each = row_of.shape[1];
  with_type(y.dtype, [&]<typename T>(T*) HWY_ATTR {
    for (std::int64_t t = begin; t < end; ++t) {
      const std::int32_t* const rows = row_of.as<std::int32_t>() + t * each;
      const T* const added = residual ? residual.as<T>() + t * columns : nullptr;
      for_each_vector(columns, [&](std::int64_t c, std::int64_t n) HWY_ATTR {
        auto sum = load(x.as<T>() + rows[0] * columns + c, n);
        for (std::int64_t k = 1; k < each; ++k)
          sum = hn::Add(sum, load(x.as<T>() + rows[k] * columns + c, n));
        if (added) sum = hn::Add(sum, load(added + c, n));
        store(sum, y.as<T>() + t * columns + c, n);
      });
    }
  });
}

}  // namespace troupe::tensor::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::tensor {
namespace {

constexpr std::int64_t kRowGrain = 8;

HWY_EXPORT(sum_token_rows);

}  // namespace

// A counting sort in the calling thread: it costs little beside the rows' own products.
void CpuOps::run_sort_rows(Stream&, const Tensor& chosen, const Tensor& weights,
                           const Tensor& offsets, const Tensor& row_of, const Tensor& token_of,
                           const Tensor& row_weights) {
  const std::int64_t choices = chosen.num_elements(), experts = offsets.num_elements() - 1;
  const std::int64_t each = chosen.shape[1];
  const auto* const expert = chosen.as<std::int32_t>();
  auto* const next = offsets.as<std::int32_t>();  // the next row of each expert, for now
  std::fill_n(next, experts + 1, 0);
  for (std::int64_t i = 0; i < choices; ++i) ++next[expert[i] + 1];
  for (std::int64_t e = 0; e < experts; ++e) next[e + 1] += next[e];
  for (std::int64_t i = 0; i < choices; ++i) {
    const std::int32_t row = next[expert[i]]++;
    row_of.as<std::int32_t>()[i] = row;
    token_of.as<std::int32_t>()[row] = static_cast<std::int32_t>(i / each);
    row_weights.as<float>()[row] = weights.as<float>()[i];
  }
  std::copy_backward(next, next + experts, next + experts + 1);
  next[0] = 0;
}

void CpuOps::run_gather_rows(Stream&, const Tensor& x, const Tensor& rows, const Tensor& y) {
  const std::size_t bytes = static_cast<std::size_t>(y.shape[1]) * size_of(y.dtype);
  const auto gather = [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const auto from = static_cast<std::size_t>(rows.as<std::int32_t>()[r]);
      std::memcpy(y.as<std::byte>() + static_cast<std::size_t>(r) * bytes,
                  x.as<std::byte>() + from * bytes, bytes);
    }
  };
  parallel_ranges(threads_, y.shape[0], kRowGrain, gather);
}

void CpuOps::run_sum_rows(Stream&, const Tensor& x, const Tensor& row_of, const Tensor& y,
                          const Tensor& residual) {
  call_for_ranges(threads_, y.shape[0], kRowGrain, HWY_DYNAMIC_DISPATCH(sum_token_rows), x, row_of,
                  y, residual);
}

}  // namespace troupe::tensor
#endif
