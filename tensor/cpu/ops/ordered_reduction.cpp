#include "tensor/cpu/ops/ordered_reduction.h"

#include <algorithm>
#include <type_traits>

#include "tensor/errors/error.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/cpu/ops/ordered_reduction.cpp"
#include <hwy/foreach_target.h>

#include "tensor/cpu/loops/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace troupe::tensor::HWY_NAMESPACE {

using Parts = std::span<const std::byte* const>;

/// Elements as they lie in memory, and as they are computed with.
template <typename T>
struct Element {
  using D = hn::ScalableTag<T>;
  static HWY_INLINE hn::Vec<D> read(const T* p) { return hn::LoadU(D(), p); }
  static HWY_INLINE void write(hn::Vec<D> x, T* p) { hn::StoreU(x, D(), p); }
};
template <>
struct Element<BFloat16> {
  using D = F32;
  static HWY_INLINE Vector read(const BFloat16* p) { return load(p); }
  static HWY_INLINE void write(Vector x, BFloat16* p) { store(x, p); }
  static HWY_INLINE void write(Vector x, float* p) { store(x, p); }
};

template <typename D>
HWY_INLINE hn::Vec<D> larger(D, hn::Vec<D> a, hn::Vec<D> b) {
  if constexpr (std::is_floating_point_v<hn::TFromD<D>>) {
    // A NaN in `a` stays, because no comparison with it is true.
    return hn::IfThenElse(hn::Or(hn::Gt(b, a), hn::IsNaN(b)), b, a);
  } else {
    return hn::IfThenElse(hn::Gt(b, a), b, a);
  }
}

template <typename D>
HWY_INLINE hn::Vec<D> divided(D d, hn::Vec<D> sum, std::size_t count) {
  using T = hn::TFromD<D>;
  if constexpr (std::is_floating_point_v<T>) {
    return hn::Div(sum, hn::Set(d, static_cast<T>(count)));
  } else {
    T lanes[hn::MaxLanes(D())];
    hn::StoreU(sum, d, lanes);
    for (std::size_t i = 0; i < hn::Lanes(d); ++i) lanes[i] /= static_cast<T>(count);
    return hn::LoadU(d, lanes);
  }
}

/// One vector of the result. `read(part)` is that vector of a part.
template <typename D, typename Read>
HWY_INLINE hn::Vec<D> reduced(D d, Parts parts, Reduction reduction, const Read& read) {
  auto x = read(parts[0]);
  for (std::size_t p = 1; p < parts.size(); ++p) {
    const auto y = read(parts[p]);
    x = reduction == Reduction::max ? larger(d, x, y) : hn::Add(x, y);
  }
  return reduction == Reduction::average ? divided(d, x, parts.size()) : x;
}

/// `Out` is T, or what T is computed with.
template <typename T, typename Out>
void reduce_elements(Parts parts, std::byte* bytes, std::size_t elements, Reduction reduction) {
  using Type = Element<T>;
  Out* const out = reinterpret_cast<Out*>(bytes);
  const typename Type::D d;
  const std::size_t step = hn::Lanes(d);
  const auto at = [](const std::byte* part, std::size_t i)
                      HWY_ATTR { return reinterpret_cast<const T*>(part) + i; };
  std::size_t i = 0;
  for (; i + step <= elements; i += step) {
    const auto read = [&](const std::byte* part) HWY_ATTR { return Type::read(at(part, i)); };
    Type::write(reduced(d, parts, reduction, read), out + i);
  }
  const std::size_t rest = elements - i;
  if (rest == 0) return;
  T part_lanes[hn::MaxLanes(typename Type::D())];
  const auto read = [&](const std::byte* part) HWY_ATTR {
    std::fill(part_lanes, part_lanes + step, T{});
    std::copy_n(at(part, i), rest, part_lanes);
    return Type::read(part_lanes);
  };
  const auto x = reduced(d, parts, reduction, read);
  Out out_lanes[hn::MaxLanes(typename Type::D())];
  Type::write(x, out_lanes);
  std::copy_n(out_lanes, rest, out + i);
}

/// `out` is of `dtype`, or float32 if `to_f32`, for bfloat16 alone.
void reduce_all(Parts parts, std::byte* out, std::size_t elements, DType dtype, bool to_f32,
                Reduction reduction) {
  switch (dtype) {
    case DType::f32:
      return reduce_elements<float, float>(parts, out, elements, reduction);
    case DType::bf16:
      return to_f32 ? reduce_elements<BFloat16, float>(parts, out, elements, reduction)
                    : reduce_elements<BFloat16, BFloat16>(parts, out, elements, reduction);
    case DType::i32:
      return reduce_elements<std::int32_t, std::int32_t>(parts, out, elements, reduction);
    case DType::f64:
      return reduce_elements<double, double>(parts, out, elements, reduction);
    case DType::i64:
      return reduce_elements<std::int64_t, std::int64_t>(parts, out, elements, reduction);
  }
}

}  // namespace troupe::tensor::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::tensor {
namespace {

HWY_EXPORT(reduce_all);

}  // namespace

void ordered_reduction(std::span<const std::byte* const> parts, std::byte* out,
                       std::size_t elements, DType dtype, Reduction reduction) {
  TROUPE_ASSERT(!parts.empty());
  HWY_DYNAMIC_DISPATCH(reduce_all)(parts, out, elements, dtype, false, reduction);
}

void ordered_reduction_to_f32(std::span<const std::byte* const> parts, std::byte* out,
                              std::size_t elements, Reduction reduction) {
  TROUPE_ASSERT(!parts.empty());
  HWY_DYNAMIC_DISPATCH(reduce_all)(parts, out, elements, DType::bf16, true, reduction);
}

}  // namespace troupe::tensor
#endif
