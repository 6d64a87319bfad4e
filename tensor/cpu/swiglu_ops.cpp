#include "tensor/cpu/cpu_ops.h"
#include "tensor/cpu/parallel.h"
#include "tensor/error.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/cpu/swiglu_ops.cpp"
#include <hwy/foreach_target.h>

#include "tensor/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace troupe::tensor::HWY_NAMESPACE {

HWY_INLINE Vector sigmoid(Vector x) {
  return hn::Div(constant(1.0f), hn::Add(constant(1.0f), exp(hn::Neg(x))));
}

template <typename T>
HWY_INLINE void swiglu_row(const T* gate, const T* up, std::int64_t width, T* y) {
  for_each_vector(width, [&](std::int64_t f, std::int64_t n) HWY_ATTR {
    const auto g = load(gate + f, n);
    store(hn::Mul(hn::Mul(g, sigmoid(g)), load(up + f, n)), y + f, n);
  });
}

/// Backward of one row, where silu'(g) = s + g s (1 - s) with s = sigmoid(g).
template <typename T>
HWY_INLINE void swiglu_backward_row(const T* gate, const T* up, const T* dy, std::int64_t width,
                                    T* dgate, T* dup) {
  for_each_vector(width, [&](std::int64_t f, std::int64_t n) HWY_ATTR {
    const auto g = load(gate + f, n);
    const auto u = load(up + f, n);
    const auto d = load(dy + f, n);
    const auto s = sigmoid(g);
    const auto silu = hn::Mul(g, s);
    const auto slope = hn::MulAdd(silu, hn::Sub(constant(1.0f), s), s);
    store(hn::Mul(hn::Mul(d, u), slope), dgate + f, n);
    store(hn::Mul(d, silu), dup + f, n);
  });
}

void swiglu_rows(const Tensor& gate_up, const Tensor& y, std::int64_t width, std::int64_t begin,
                 std::int64_t end) {
  with_type(y.dtype, [&](auto* type) HWY_ATTR {
    using T = std::remove_pointer_t<decltype(type)>;
    for (std::int64_t t = begin; t < end; ++t) {
      const T* gate = gate_up.as<T>() + t * 2 * width;
      swiglu_row(gate, gate + width, width, y.as<T>() + t * width);
    }
  });
}

void swiglu_backward_rows(const Tensor& gate_up, const Tensor& dy, const Tensor& dgate_up,
                          std::int64_t width, std::int64_t begin, std::int64_t end) {
  with_type(dy.dtype, [&](auto* type) HWY_ATTR {
    using T = std::remove_pointer_t<decltype(type)>;
    for (std::int64_t t = begin; t < end; ++t) {
      const T* gate = gate_up.as<T>() + t * 2 * width;
      T* dgate = dgate_up.as<T>() + t * 2 * width;
      swiglu_backward_row(gate, gate + width, dy.as<T>() + t * width, width, dgate, dgate + width);
    }
  });
}

}  // namespace troupe::tensor::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::tensor {
namespace {

constexpr std::int64_t kGrain = 4;  // rows

HWY_EXPORT(swiglu_rows);
HWY_EXPORT(swiglu_backward_rows);

}  // namespace

void CpuOps::swiglu(Stream&, const Tensor& gate_up, const Tensor& y) {
  TROUPE_ASSERT(y.shape.rank() == 2 && gate_up.num_elements() == 2 * y.num_elements());
  TROUPE_ASSERT(gate_up.dtype == y.dtype);
  const auto run = HWY_DYNAMIC_DISPATCH(swiglu_rows);
  parallel_ranges(threads_, y.shape[0], kGrain, [&](std::int64_t begin, std::int64_t end) {
    run(gate_up, y, y.shape[1], begin, end);
  });
}

void CpuOps::swiglu_backward(Stream&, const Tensor& gate_up, const Tensor& dy,
                             const Tensor& dgate_up) {
  TROUPE_ASSERT(dy.shape.rank() == 2 && gate_up.num_elements() == 2 * dy.num_elements());
  TROUPE_ASSERT(dgate_up.num_elements() == gate_up.num_elements());
  TROUPE_ASSERT(gate_up.dtype == dy.dtype && dgate_up.dtype == dy.dtype);
  const auto run = HWY_DYNAMIC_DISPATCH(swiglu_backward_rows);
  parallel_ranges(threads_, dy.shape[0], kGrain, [&](std::int64_t begin, std::int64_t end) {
    run(gate_up, dy, dgate_up, dy.shape[1], begin, end);
  });
}

}  // namespace troupe::tensor
#endif
