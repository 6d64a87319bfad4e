#include "tensor/cpu/cpu_ops.h"
#include "tensor/cpu/parallel.h"
#include "tensor/error.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/cpu/gelu_ops.cpp"
#include <hwy/foreach_target.h>

#include "tensor/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace troupe::tensor::HWY_NAMESPACE {

// (1 + tanh(u)) / 2 = sigmoid(2u), so that gelu(x) = x sigmoid(2u), 2u = kSlope (x + kCubic x^3).
constexpr float kSlope = 1.5957691216f;  // 2 sqrt(2 / pi)
constexpr float kCubic = 0.044715f;

/// e^-2u at x, which is infinite for a very negative x.
HWY_INLINE Vector exp_of_negated(Vector x) {
  const auto cubed = hn::Mul(hn::Mul(x, x), x);
  return exp(hn::Mul(hn::MulAdd(cubed, constant(kCubic), x), constant(-kSlope)));
}

/// gelu'(x) = s + x s (1 - s) (2u)', s = sigmoid(2u). Beyond 10 it is 1 or 0 to float32's digits;
/// x is kept within, where e^-2u is finite and 1 - s = e^-2u s loses no digits.
HWY_INLINE Vector gelu_slope(Vector x) {
  constexpr float kFar = 10.0f;
  x = hn::IfThenElse(hn::Lt(x, constant(-kFar)), constant(-kFar), x);
  x = hn::IfThenElse(hn::Gt(x, constant(kFar)), constant(kFar), x);
  const auto e = exp_of_negated(x);
  const auto s = hn::Div(constant(1.0f), hn::Add(constant(1.0f), e));
  const auto inner = hn::MulAdd(hn::Mul(x, x), constant(3 * kCubic * kSlope), constant(kSlope));
  return hn::MulAdd(hn::Mul(hn::Mul(x, s), hn::Mul(e, s)), inner, s);
}

void gelu_range(const Tensor& x, const Tensor& y, std::int64_t begin, std::int64_t end) {
  with_type(x.dtype, [&](auto* type) HWY_ATTR {
    using T = std::remove_pointer_t<decltype(type)>;
    const T* from = x.as<T>() + begin;
    T* to = y.as<T>() + begin;
    for_each_vector(end - begin, [&](std::int64_t i, std::int64_t n) HWY_ATTR {
      const auto v = load(from + i, n);
      store(hn::Div(v, hn::Add(constant(1.0f), exp_of_negated(v))), to + i, n);
    });
  });
}

void gelu_backward_range(const Tensor& x, const Tensor& dy, const Tensor& dx, std::int64_t begin,
                         std::int64_t end) {
  with_type(x.dtype, [&](auto* type) HWY_ATTR {
    using T = std::remove_pointer_t<decltype(type)>;
    const T* from = x.as<T>() + begin;
    const T* gradient = dy.as<T>() + begin;
    T* to = dx.as<T>() + begin;
    for_each_vector(end - begin, [&](std::int64_t i, std::int64_t n) HWY_ATTR {
      store(hn::Mul(load(gradient + i, n), gelu_slope(load(from + i, n))), to + i, n);
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

HWY_EXPORT(gelu_range);
HWY_EXPORT(gelu_backward_range);

}  // namespace

void CpuOps::gelu(Stream&, const Tensor& x, const Tensor& y) {
  TROUPE_ASSERT(x.num_elements() == y.num_elements() && x.dtype == y.dtype);
  const auto run = HWY_DYNAMIC_DISPATCH(gelu_range);
  parallel_ranges(threads_, x.num_elements(), kGrain,
                  [&](std::int64_t begin, std::int64_t end) { run(x, y, begin, end); });
}

void CpuOps::gelu_backward(Stream&, const Tensor& x, const Tensor& dy, const Tensor& dx) {
  TROUPE_ASSERT(dy.num_elements() == x.num_elements() && dx.num_elements() == x.num_elements());
  TROUPE_ASSERT(dy.dtype == x.dtype && dx.dtype == x.dtype);
  const auto run = HWY_DYNAMIC_DISPATCH(gelu_backward_range);
  parallel_ranges(threads_, x.num_elements(), kGrain,
                  [&](std::int64_t begin, std::int64_t end) { run(x, dy, dx, begin, end); });
}

}  // namespace troupe::tensor
#endif
