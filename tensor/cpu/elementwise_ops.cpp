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

void add_range(const float* x, float* y, std::int64_t count) {
  for_each_vector(count, [&](std::int64_t i, std::int64_t n) HWY_ATTR {
    store(hn::Add(load(y + i, n), load(x + i, n)), y + i, n);
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
  TROUPE_ASSERT(x.dtype == DType::f32 && y.dtype == DType::f32);
  TROUPE_ASSERT(x.num_elements() == y.num_elements());
  const auto add = HWY_DYNAMIC_DISPATCH(add_range);
  parallel_ranges(threads_, x.num_elements(), kGrain, [&](std::int64_t begin, std::int64_t end) {
    add(x.as<float>() + begin, y.as<float>() + begin, end - begin);
  });
}

}  // namespace troupe::tensor
#endif
