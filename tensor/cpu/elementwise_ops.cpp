#include <algorithm>
#include <cstring>

#include "tensor/cpu/cpu_ops.h"
#include "tensor/cpu/parallel.h"
#include "tensor/error.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/cpu/elementwise_ops.cpp"
#include <hwy/foreach_target.h>

#include "tensor/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace troupe::tensor::HWY_NAMESPACE {

void convert_range(const Tensor& src, const Tensor& dst, std::int64_t begin, std::int64_t end) {
  with_type(src.dtype, [&](auto* src_type) HWY_ATTR {
    using Src = std::remove_pointer_t<decltype(src_type)>;
    with_type(dst.dtype, [&](auto* dst_type) HWY_ATTR {
      using Dst = std::remove_pointer_t<decltype(dst_type)>;
      const Src* from = src.as<Src>() + begin;
      Dst* to = dst.as<Dst>() + begin;
      for_each_vector(end - begin, [&](std::int64_t i, std::int64_t n)
                                       HWY_ATTR { store(load(from + i, n), to + i, n); });
    });
  });
}

void add_range(const Tensor& x, const Tensor& y, std::int64_t begin, std::int64_t end) {
  with_type(y.dtype, [&](auto* type) HWY_ATTR {
    using T = std::remove_pointer_t<decltype(type)>;
    const T* added = x.as<T>() + begin;
    T* sum = y.as<T>() + begin;
    for_each_vector(end - begin, [&](std::int64_t i, std::int64_t n) HWY_ATTR {
      store(hn::Add(load(sum + i, n), load(added + i, n)), sum + i, n);
    });
  });
}

}  // namespace troupe::tensor::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::tensor {
namespace {

// In elements. For fewer, starting threads costs more than it saves.
constexpr std::int64_t kGrain = 4096;

HWY_EXPORT(convert_range);
HWY_EXPORT(add_range);

bool is_act(DType dtype) {
  return dtype == DType::f32 || dtype == DType::bf16;
}

}  // namespace

void CpuOps::fill_zero(Stream&, const Tensor& x) {
  const auto size = static_cast<std::int64_t>(size_of(x.dtype));
  parallel_ranges(threads_, x.num_elements(), kGrain, [&](std::int64_t begin, std::int64_t end) {
    std::memset(x.as<std::byte>() + begin * size, 0,
                static_cast<std::size_t>((end - begin) * size));
  });
}

void CpuOps::copy(Stream&, const Tensor& src, const Tensor& dst) {
  TROUPE_ASSERT(src.num_elements() == dst.num_elements());
  TROUPE_ASSERT(src.dtype == dst.dtype || (is_act(src.dtype) && is_act(dst.dtype)));
  const auto size = static_cast<std::int64_t>(size_of(src.dtype));
  const auto convert = HWY_DYNAMIC_DISPATCH(convert_range);
  parallel_ranges(threads_, src.num_elements(), kGrain, [&](std::int64_t begin, std::int64_t end) {
    if (src.dtype != dst.dtype) return convert(src, dst, begin, end);
    std::memcpy(dst.as<std::byte>() + begin * size, src.as<std::byte>() + begin * size,
                static_cast<std::size_t>((end - begin) * size));
  });
}

void CpuOps::accumulate(Stream&, const Tensor& x, const Tensor& y) {
  TROUPE_ASSERT(x.dtype == y.dtype && is_act(y.dtype));
  TROUPE_ASSERT(x.num_elements() == y.num_elements());
  const auto add = HWY_DYNAMIC_DISPATCH(add_range);
  parallel_ranges(threads_, x.num_elements(), kGrain,
                  [&](std::int64_t begin, std::int64_t end) { add(x, y, begin, end); });
}

void CpuOps::copy_columns(Stream&, const Tensor& src, std::int64_t from, const Tensor& dst,
                          std::int64_t to, std::int64_t count) {
  TROUPE_ASSERT(src.dtype == dst.dtype && src.shape.rank() == 2 && dst.shape.rank() == 2);
  TROUPE_ASSERT(src.shape[0] == dst.shape[0] && count >= 0);
  TROUPE_ASSERT(from >= 0 && from + count <= src.shape[1]);
  TROUPE_ASSERT(to >= 0 && to + count <= dst.shape[1]);
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

}  // namespace troupe::tensor
#endif
