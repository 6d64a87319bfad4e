#include "tensor/cpu/products/conversion.h"

#include "tensor/cpu/loops/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/cpu/products/conversion.cpp"
#include <hwy/foreach_target.h>

#include "tensor/cpu/loops/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace troupe::tensor::HWY_NAMESPACE {

void widen_range(const BFloat16* x, float* y, std::int64_t count) {
  for_each_vector(
      count, [&](std::int64_t i, std::int64_t n) HWY_ATTR { store(load(x + i, n), y + i, n); });
}

void narrow_range(const float* x, const BFloat16* addend, BFloat16* y, std::int64_t count) {
  if (!addend) {
    for_each_vector(
        count, [&](std::int64_t i, std::int64_t n) HWY_ATTR { store(load(x + i, n), y + i, n); });
    return;
  }
  for_each_vector(count, [&](std::int64_t i, std::int64_t n) HWY_ATTR {
    store(hn::Add(load(x + i, n), load(addend + i, n)), y + i, n);
  });
}

void round_range(float* x, std::int64_t count) {
  for_each_vector(count, [&](std::int64_t i, std::int64_t n)
                             HWY_ATTR { store(widen(narrow(load(x + i, n))), x + i, n); });
}

}  // namespace troupe::tensor::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::tensor {
namespace {

// In elements. For fewer, starting threads costs more than it saves.
constexpr std::int64_t kGrain = 4096;

HWY_EXPORT(widen_range);
HWY_EXPORT(narrow_range);
HWY_EXPORT(round_range);

}  // namespace

void widen(int threads, const BFloat16* x, float* y, std::int64_t count) {
  const auto range = HWY_DYNAMIC_DISPATCH(widen_range);
  parallel_ranges(threads, count, kGrain, [&](std::int64_t begin, std::int64_t end) {
    range(x + begin, y + begin, end - begin);
  });
}

void narrow(int threads, const float* x, const BFloat16* addend, BFloat16* y, std::int64_t count) {
  const auto range = HWY_DYNAMIC_DISPATCH(narrow_range);
  parallel_ranges(threads, count, kGrain, [&](std::int64_t begin, std::int64_t end) {
    range(x + begin, addend ? addend + begin : nullptr, y + begin, end - begin);
  });
}

void round_to_bfloat16(int threads, float* x, std::int64_t count) {
  const auto range = HWY_DYNAMIC_DISPATCH(round_range);
  parallel_ranges(threads, count, kGrain,
                  [&](std::int64_t begin, std::int64_t end) { range(x + begin, end - begin); });
}

}  // namespace troupe::tensor
#endif
