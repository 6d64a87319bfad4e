#include "tensor/cpu/loops/parallel.h"
#include "tensor/cpu/ops/cpu_ops.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/cpu/ops/scaling_ops.cpp"
#include <hwy/foreach_target.h>

#include "tensor/cpu/loops/soft_cap-inl.h"

HWY_BEFORE_NAMESPACE();
namespace troupe::tensor::HWY_NAMESPACE {

void scale_range(const Tensor& x, float factor, const Tensor& y, std::int64_t begin,
                 std::int64_t end) {
  with_type(x.dtype, [&]<typename T>(T*) HWY_ATTR {
    const T* from = x.as<T>() + begin;
    T* to = y.as<T>() + begin;
    for_each_vector(end - begin, [&](std::int64_t i, std::int64_t n) HWY_ATTR {
      store(hn::Mul(load(from + i, n), constant(factor)), to + i, n);
    });
  });
}

void add_scaled_range(const Tensor& x, float factor, const Tensor& residual, const Tensor& y,
                      std::int64_t begin, std::int64_t end) {
  with_type(x.dtype, [&]<typename T>(T*) HWY_ATTR {
    const T* from = x.as<T>() + begin;
    const T* before = residual.as<T>() + begin;
    T* to = y.as<T>() + begin;
    for_each_vector(end - begin, [&](std::int64_t i, std::int64_t n) HWY_ATTR {
      store(hn::MulAdd(load(from + i, n), constant(factor), load(before + i, n)), to + i, n);
    });
  });
}

void cap_range(const Tensor& x, float scale, float cap, const Tensor& y, std::int64_t begin,
               std::int64_t end) {
  const float* from = x.as<float>() + begin;
  float* to = y.as<float>() + begin;
  for_each_vector(end - begin, [&](std::int64_t i, std::int64_t n) HWY_ATTR {
    store(soft_cap(load(from + i, n), scale, cap), to + i, n);
  });
}

void cap_backward_range(const Tensor& y, const Tensor& dy, float scale, float cap, const Tensor& dx,
                        std::int64_t begin, std::int64_t end) {
  with_type(dx.dtype, [&]<typename T>(T*) HWY_ATTR {
    const float* capped = y.as<float>() + begin;
    const T* gradient = dy.as<T>() + begin;
    T* to = dx.as<T>() + begin;
    for_each_vector(end - begin, [&](std::int64_t i, std::int64_t n) HWY_ATTR {
      store(hn::Mul(load(gradient + i, n), soft_cap_slope(load(capped + i, n), scale, cap)), to + i,
            n);
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

HWY_EXPORT(scale_range);
HWY_EXPORT(add_scaled_range);
HWY_EXPORT(cap_range);
HWY_EXPORT(cap_backward_range);

}  // namespace

void CpuOps::run_scale(Stream&, const Tensor& x, float factor, const Tensor& y) {
  call_for_ranges(threads_, x.num_elements(), kGrain, HWY_DYNAMIC_DISPATCH(scale_range), x, factor,
                  y);
}

void CpuOps::run_add_scaled(Stream&, const Tensor& x, float factor, const Tensor& residual,
                            const Tensor& y) {
  call_for_ranges(threads_, x.num_elements(), kGrain, HWY_DYNAMIC_DISPATCH(add_scaled_range), x,
                  factor, residual, y);
}

void CpuOps::run_cap_logits(Stream& stream, const Tensor& x, float scale, float cap,
                            const Tensor& y) {
  if (cap == 0) return run_scale(stream, x, scale, y);
  call_for_ranges(threads_, x.num_elements(), kGrain, HWY_DYNAMIC_DISPATCH(cap_range), x, scale,
                  cap, y);
}

void CpuOps::run_cap_logits_backward(Stream& stream, const Tensor& y, const Tensor& dy, float scale,
                                     float cap, const Tensor& dx) {
  if (cap == 0) return run_scale(stream, dy, scale, dx);
  call_for_ranges(threads_, dx.num_elements(), kGrain, HWY_DYNAMIC_DISPATCH(cap_backward_range), y,
                  dy, scale, cap, dx);
}

}  // namespace troupe::tensor
#endif
