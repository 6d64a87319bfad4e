// Functions that the Highway kernels share. Compiled once per target: include it after
// foreach_target.h.

#if defined(TROUPE_TENSOR_CPU_SIMD_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TROUPE_TENSOR_CPU_SIMD_INL_H
#undef TROUPE_TENSOR_CPU_SIMD_INL_H
#else
#define TROUPE_TENSOR_CPU_SIMD_INL_H
#endif

#include <hwy/highway.h>

#include <cstdint>
#include <cstring>
#include <limits>

#include "tensor/values/tensor.h"

HWY_BEFORE_NAMESPACE();
namespace troupe::tensor::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using F32 = hn::ScalableTag<float>;
using I32 = hn::RebindToSigned<F32>;
using U32 = hn::RebindToUnsigned<F32>;
using U16 = hn::Rebind<std::uint16_t, F32>;
using Vector = hn::Vec<F32>;

HWY_INLINE std::int64_t lanes() {
  return static_cast<std::int64_t>(hn::Lanes(F32()));
}
HWY_INLINE Vector constant(float x) {
  return hn::Set(F32(), x);
}
HWY_INLINE Vector zero() {
  return hn::Zero(F32());
}

HWY_INLINE Vector widen(hn::Vec<U16> x) {
  return hn::BitCast(F32(), hn::ShiftLeft<16>(hn::PromoteTo(U32(), x)));
}
/// Rounds float32 to bfloat16: to nearest even, NaN stays NaN.
HWY_INLINE hn::Vec<U16> narrow(Vector x) {
  const auto bits = hn::BitCast(U32(), x);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(U32(), 1));
  const auto rounded = hn::Add(hn::Add(bits, hn::Set(U32(), 0x7fff)), odd);
  const auto nan = hn::Or(bits, hn::Set(U32(), 0x400000));
  const auto upper =
      hn::ShiftRight<16>(hn::IfThenElse(hn::RebindMask(U32(), hn::IsNaN(x)), nan, rounded));
  return hn::DemoteTo(U16(), hn::BitCast(I32(), upper));
}

HWY_INLINE Vector load(const float* p) {
  return hn::LoadU(F32(), p);
}
HWY_INLINE Vector load(const BFloat16* p) {
  return widen(hn::LoadU(U16(), &p->bits));
}
HWY_INLINE void store(Vector x, float* p) {
  hn::StoreU(x, F32(), p);
}
HWY_INLINE void store(Vector x, BFloat16* p) {
  hn::StoreU(narrow(x), U16(), &p->bits);
}

/// Loads less than a vector by way of memory that may be read and written whole.
template <typename T>
HWY_INLINE Vector load_copied(const T* p, std::int64_t n) {
  T part[hn::MaxLanes(F32())] = {};
  std::memcpy(part, p, static_cast<std::size_t>(n) * sizeof(T));
  return load(part);
}
template <typename T>
HWY_INLINE void store_copied(Vector x, T* p, std::int64_t n) {
  T part[hn::MaxLanes(F32())];
  store(x, part);
  std::memcpy(p, part, static_cast<std::size_t>(n) * sizeof(T));
}

#if HWY_TARGET == HWY_AVX3
constexpr bool kMasksMemory = true;  // masked loads and stores touch the masked elements alone
#else
constexpr bool kMasksMemory = false;
#endif

template <typename D>
HWY_INLINE hn::Mask<D> first(D d, std::int64_t n) {
  return hn::FirstN(d, static_cast<std::size_t>(n));
}

/// Loads the first n <= lanes() elements; the rest of the vector is zero.
HWY_INLINE Vector load(const float* p, std::int64_t n) {
  if (n == lanes()) return load(p);
  if (kMasksMemory) return hn::MaskedLoad(first(F32(), n), F32(), p);
  return load_copied(p, n);
}
HWY_INLINE Vector load(const BFloat16* p, std::int64_t n) {
  if (n == lanes()) return load(p);
  if (kMasksMemory) return widen(hn::MaskedLoad(first(U16(), n), U16(), &p->bits));
  return load_copied(p, n);
}
HWY_INLINE void store(Vector x, float* p, std::int64_t n) {
  if (n == lanes()) return store(x, p);
  if (kMasksMemory) return hn::BlendedStore(x, first(F32(), n), F32(), p);
  store_copied(x, p, n);
}
HWY_INLINE void store(Vector x, BFloat16* p, std::int64_t n) {
  if (n == lanes()) return store(x, p);
  if (kMasksMemory) return hn::BlendedStore(narrow(x), first(U16(), n), U16(), &p->bits);
  store_copied(x, p, n);
}

/// The first n <= lanes() lanes of x; zero beyond.
HWY_INLINE Vector first_n(Vector x, std::int64_t n) {
  if (n == lanes()) return x;
  return hn::IfThenElseZero(first(F32(), n), x);
}
/// Loads the first n <= lanes() elements; the rest of the vector is that of `otherwise`.
HWY_INLINE Vector load_or(const float* p, std::int64_t n, Vector otherwise) {
  if (n == lanes()) return load(p);
  return hn::IfThenElse(first(F32(), n), load(p, n), otherwise);
}

/// Calls body(i, n) for i = 0, lanes(), ...; n is lanes() except for a shorter last piece.
template <typename Body>
HWY_INLINE void for_each_vector(std::int64_t count, const Body& body) {
  const std::int64_t step = lanes();
  std::int64_t i = 0;
  for (; i + step <= count; i += step) body(i, step);
  if (i < count) body(i, count - i);
}

HWY_INLINE float sum_of_lanes(Vector x) {
  return hn::GetLane(hn::SumOfLanes(F32(), x));
}

/// Maximum of x; minus infinity if there is none. A NaN may get lost here, but it comes back in
/// every sum of exponentials that uses the maximum.
HWY_INLINE float max_of(const float* x, std::int64_t count) {
  auto largest = constant(-std::numeric_limits<float>::infinity());
  for_each_vector(count, [&](std::int64_t i, std::int64_t n)
                             HWY_ATTR { largest = hn::Max(largest, load_or(x + i, n, largest)); });
  return hn::GetLane(hn::MaxOfLanes(F32(), largest));
}

/// 2^n for n in [-126, 127].
HWY_INLINE Vector power_of_two(hn::Vec<I32> n) {
  return hn::BitCast(F32(), hn::ShiftLeft<23>(hn::Add(n, hn::Set(I32(), 127))));
}

/// e^x within 2 ulp over all of float32, denormal results included: e^x = 2^n e^r with |r| <=
/// ln(2)/2, e^r by its Taylor series to the 7th power. A NaN stays a NaN, because the comparisons
/// in the function are false for it.
HWY_INLINE Vector exp(Vector x) {
  constexpr float kLowest = -104.0f, kHighest = 89.0f;  // e^x is 0 below and infinite above
  x = hn::IfThenElse(hn::Lt(x, constant(kLowest)), constant(kLowest), x);
  x = hn::IfThenElse(hn::Gt(x, constant(kHighest)), constant(kHighest), x);
  const auto n = hn::Round(hn::Mul(x, constant(1.44269504f)));
  const auto r =
      hn::NegMulAdd(n, constant(-2.12194440e-4f), hn::NegMulAdd(n, constant(0.693359375f), x));
  auto sum = hn::MulAdd(constant(1.0f / 5040), r, constant(1.0f / 720));
  sum = hn::MulAdd(sum, r, constant(1.0f / 120));
  sum = hn::MulAdd(sum, r, constant(1.0f / 24));
  sum = hn::MulAdd(sum, r, constant(1.0f / 6));
  sum = hn::MulAdd(sum, r, constant(0.5f));
  sum = hn::MulAdd(sum, hn::Mul(r, r), r);
  // 2^n in two factors: n spans more than the exponents of one normal number.
  const auto exponent = hn::ConvertTo(I32(), n);
  const auto half = hn::ShiftRight<1>(exponent);
  const auto scaled = hn::Mul(hn::Add(sum, constant(1.0f)), power_of_two(half));
  return hn::Mul(scaled, power_of_two(hn::Sub(exponent, half)));
}

/// Calls body with a null T* of the tensor's element type, float32 or bfloat16.
template <typename Body>
HWY_INLINE void with_type(DType dtype, const Body& body) {
  if (dtype == DType::bf16) {
    body(static_cast<BFloat16*>(nullptr));
  } else {
    body(static_cast<float*>(nullptr));
  }
}

}  // namespace troupe::tensor::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
