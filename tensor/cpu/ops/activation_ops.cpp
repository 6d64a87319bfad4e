#include "tensor/cpu/loops/parallel.h"
#include "tensor/cpu/ops/cpu_ops.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/cpu/ops/activation_ops.cpp"
#include <hwy/foreach_target.h>

#include "tensor/cpu/loops/simd-inl.h"

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

HWY_INLINE Vector gelu_of(Vector x) {
  return hn::Div(x, hn::Add(constant(1.0f), exp_of_negated(x)));
}

HWY_INLINE Vector sigmoid(Vector x) {
  return hn::Div(constant(1.0f), hn::Add(constant(1.0f), exp(hn::Neg(x))));
}

/// An activation and its derivative at a point.
struct Activated {
  Vector value, slope;
};

/// silu(g) = g s with s = sigmoid(g), and silu'(g) = s + g s (1 - s).
struct Silu {
  static HWY_INLINE Vector value(Vector g) { return hn::Mul(g, sigmoid(g)); }
  static HWY_INLINE Activated with_slope(Vector g) {
    const auto s = sigmoid(g);
    const auto silu = hn::Mul(g, s);
    return {silu, hn::MulAdd(silu, hn::Sub(constant(1.0f), s), s)};
  }
};

struct Gelu {
  static HWY_INLINE Vector value(Vector g) { return gelu_of(g); }
  static HWY_INLINE Activated with_slope(Vector g) { return {gelu_of(g), gelu_slope(g)}; }
};

/// y = activation(gate) * up, of rows that hold gates, then ups.
template <typename Activation>
HWY_INLINE void gated_rows(const Tensor& gate_up, const Tensor& y, std::int64_t begin,
                           std::int64_t end) {
  const std::int64_t width = y.shape[1];
  with_type(y.dtype, [&]<typename T>(T*) HWY_ATTR {
    for (std::int64_t t = begin; t < end; ++t) {
      const T* gate = gate_up.as<T>() + t * 2 * width;
      T* to = y.as<T>() + t * width;
      for_each_vector(width, [&](std::int64_t f, std::int64_t n) HWY_ATTR {
        store(hn::Mul(Activation::value(load(gate + f, n)), load(gate + width + f, n)), to + f, n);
      });
    }
  });
}

template <typename Activation>
HWY_INLINE void gated_backward_rows(const Tensor& gate_up, const Tensor& dy, const Tensor& dgate_up,
                                    std::int64_t begin, std::int64_t end) {
  const std::int64_t width = dy.shape[1];
  with_type(dy.dtype, [&]<typename T>(T*) HWY_ATTR {
    for (std::int64_t t = begin; t < end; ++t) {
      const T* gate = gate_up.as<T>() + t * 2 * width;
      const T* gradient = dy.as<T>() + t * width;
      T* to = dgate_up.as<T>() + t * 2 * width;
      for_each_vector(width, [&](std::int64_t f, std::int64_t n) HWY_ATTR {
        const auto u = load(gate + width + f, n);
        const auto d = load(gradient + f, n);
        const auto activated = Activation::with_slope(load(gate + f, n));
        store(hn::Mul(hn::Mul(d, u), activated.slope), to + f, n);
        store(hn::Mul(d, activated.value), to + width + f, n);
      });
    }
  });
}

void swiglu_rows(const Tensor& gate_up, const Tensor& y, std::int64_t begin, std::int64_t end) {
  gated_rows<Silu>(gate_up, y, begin, end);
}
void swiglu_backward_rows(const Tensor& gate_up, const Tensor& dy, const Tensor& dgate_up,
                          std::int64_t begin, std::int64_t end) {
  gated_backward_rows<Silu>(gate_up, dy, dgate_up, begin, end);
}
void geglu_rows(const Tensor& gate_up, const Tensor& y, std::int64_t begin, std::int64_t end) {
  gated_rows<Gelu>(gate_up, y, begin, end);
}
void geglu_backward_rows(const Tensor& gate_up, const Tensor& dy, const Tensor& dgate_up,
                         std::int64_t begin, std::int64_t end) {
  gated_backward_rows<Gelu>(gate_up, dy, dgate_up, begin, end);
}

/// swiglu times a number for each row.
void weighted_swiglu_rows(const Tensor& gate_up, const Tensor& weights, const Tensor& y,
                          std::int64_t begin, std::int64_t end) {
  const std::int64_t width = y.shape[1];
  with_type(y.dtype, [&]<typename T>(T*) HWY_ATTR {
    for (std::int64_t r = begin; r < end; ++r) {
      const T* gate = gate_up.as<T>() + r * 2 * width;
      T* to = y.as<T>() + r * width;
      const auto weight = constant(weights.as<float>()[r]);
      for_each_vector(width, [&](std::int64_t f, std::int64_t n) HWY_ATTR {
        const auto gated = hn::Mul(Silu::value(load(gate + f, n)), load(gate + width + f, n));
        store(hn::Mul(gated, weight), to + f, n);
      });
    }
  });
}

void weighted_swiglu_backward_rows(const Tensor& gate_up, const Tensor& weights, const Tensor& dy,
                                   const Tensor& dgate_up, const Tensor& dweights,
                                   std::int64_t begin, std::int64_t end) {
  const std::int64_t width = dy.shape[1];
  with_type(dy.dtype, [&]<typename T>(T*) HWY_ATTR {
    for (std::int64_t r = begin; r < end; ++r) {
      const T* gate = gate_up.as<T>() + r * 2 * width;
      const T* gradient = dy.as<T>() + r * width;
      T* to = dgate_up.as<T>() + r * 2 * width;
      const auto weight = constant(weights.as<float>()[r]);
      auto dots = zero();
      for_each_vector(width, [&](std::int64_t f, std::int64_t n) HWY_ATTR {
        const auto u = load(gate + width + f, n);
        const auto d = load(gradient + f, n);  // zeros beyond n, so that the dot has none
        const auto activated = Silu::with_slope(load(gate + f, n));
        dots = hn::MulAdd(d, hn::Mul(activated.value, u), dots);
        const auto weighted = hn::Mul(d, weight);
        store(hn::Mul(hn::Mul(weighted, u), activated.slope), to + f, n);
        store(hn::Mul(weighted, activated.value), to + width + f, n);
      });
      dweights.as<float>()[r] = sum_of_lanes(dots);
    }
  });
}

void gelu_range(const Tensor& x, const Tensor& y, std::int64_t begin, std::int64_t end) {
  with_type(x.dtype, [&]<typename T>(T*) HWY_ATTR {
    const T* from = x.as<T>() + begin;
    T* to = y.as<T>() + begin;
    for_each_vector(end - begin, [&](std::int64_t i, std::int64_t n)
                                     HWY_ATTR { store(gelu_of(load(from + i, n)), to + i, n); });
  });
}

void gelu_backward_range(const Tensor& x, const Tensor& dy, const Tensor& dx, std::int64_t begin,
                         std::int64_t end) {
  with_type(x.dtype, [&]<typename T>(T*) HWY_ATTR {
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

constexpr std::int64_t kRowGrain = 4;
// For fewer elements, starting threads costs more than it saves.
constexpr std::int64_t kElementGrain = 4096;

HWY_EXPORT(swiglu_rows);
HWY_EXPORT(swiglu_backward_rows);
HWY_EXPORT(geglu_rows);
HWY_EXPORT(geglu_backward_rows);
HWY_EXPORT(weighted_swiglu_rows);
HWY_EXPORT(weighted_swiglu_backward_rows);
HWY_EXPORT(gelu_range);
HWY_EXPORT(gelu_backward_range);

}  // namespace

void CpuOps::run_swiglu(Stream&, const Tensor& gate_up, const Tensor& y) {
  call_for_ranges(threads_, y.shape[0], kRowGrain, HWY_DYNAMIC_DISPATCH(swiglu_rows), gate_up, y);
}

void CpuOps::run_swiglu_backward(Stream&, const Tensor& gate_up, const Tensor& dy,
                                 const Tensor& dgate_up) {
  call_for_ranges(threads_, dy.shape[0], kRowGrain, HWY_DYNAMIC_DISPATCH(swiglu_backward_rows),
                  gate_up, dy, dgate_up);
}

void CpuOps::run_geglu(Stream&, const Tensor& gate_up, const Tensor& y) {
  call_for_ranges(threads_, y.shape[0], kRowGrain, HWY_DYNAMIC_DISPATCH(geglu_rows), gate_up, y);
}

void CpuOps::run_geglu_backward(Stream&, const Tensor& gate_up, const Tensor& dy,
                                const Tensor& dgate_up) {
  call_for_ranges(threads_, dy.shape[0], kRowGrain, HWY_DYNAMIC_DISPATCH(geglu_backward_rows),
                  gate_up, dy, dgate_up);
}

void CpuOps::run_weighted_swiglu(Stream&, const Tensor& gate_up, const Tensor& weights,
                                 const Tensor& y) {
  call_for_ranges(threads_, y.shape[0], kRowGrain, HWY_DYNAMIC_DISPATCH(weighted_swiglu_rows),
                  gate_up, weights, y);
}

void CpuOps::run_weighted_swiglu_backward(Stream&, const Tensor& gate_up, const Tensor& weights,
                                          const Tensor& dy, const Tensor& dgate_up,
                                          const Tensor& dweights) {
  call_for_ranges(threads_, dy.shape[0], kRowGrain,
                  HWY_DYNAMIC_DISPATCH(weighted_swiglu_backward_rows), gate_up, weights, dy,
                  dgate_up, dweights);
}

void CpuOps::run_gelu(Stream&, const Tensor& x, const Tensor& y) {
  call_for_ranges(threads_, x.num_elements(), kElementGrain, HWY_DYNAMIC_DISPATCH(gelu_range), x,
                  y);
}

void CpuOps::run_gelu_backward(Stream&, const Tensor& x, const Tensor& dy, const Tensor& dx) {
  call_for_ranges(threads_, x.num_elements(), kElementGrain,
                  HWY_DYNAMIC_DISPATCH(gelu_backward_range), x, dy, dx);
}

}  // namespace troupe::tensor
#endif
