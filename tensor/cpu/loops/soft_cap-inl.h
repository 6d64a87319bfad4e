// The soft cap of logits and attention scores, c tanh(s / c) (arXiv 2408.00118). Compiled once per
// target: include it after foreach_target.h.

#if defined(TROUPE_TENSOR_CPU_SOFT_CAP_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TROUPE_TENSOR_CPU_SOFT_CAP_INL_H
#undef TROUPE_TENSOR_CPU_SOFT_CAP_INL_H
#else
#define TROUPE_TENSOR_CPU_SOFT_CAP_INL_H
#endif

#include <hwy/contrib/math/math-inl.h>

#include "tensor/cpu/loops/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace troupe::tensor::HWY_NAMESPACE {

/// cap * tanh(x * scale / cap).
HWY_INLINE Vector soft_cap(Vector x, float scale, float cap) {
  return hn::Mul(hn::Tanh(F32(), hn::Mul(x, constant(scale / cap))), constant(cap));
}

/// The derivative of soft_cap() by x where it is `capped`.
HWY_INLINE Vector soft_cap_slope(Vector capped, float scale, float cap) {
  const auto part = hn::Mul(capped, constant(1 / cap));
  return hn::Mul(hn::NegMulAdd(part, part, constant(1.0f)), constant(scale));
}

}  // namespace troupe::tensor::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
