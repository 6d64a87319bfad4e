#include <algorithm>

#include "tensor/cpu/loops/parallel.h"
#include "tensor/cpu/ops/cpu_ops.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/cpu/ops/optimizer_ops.cpp"
#include <hwy/foreach_target.h>

#include "tensor/cpu/loops/simd-inl.h"

namespace troupe::tensor {
#ifndef TROUPE_TENSOR_CPU_OPTIMIZER_TYPES
#define TROUPE_TENSOR_CPU_OPTIMIZER_TYPES
struct AdamWState {
  float *w, *m, *v;
};
#endif
}  // namespace troupe::tensor

HWY_BEFORE_NAMESPACE();
namespace troupe::tensor::HWY_NAMESPACE {

void adamw_range(const AdamWFactors& f, const float* gradient, const AdamWState& in,
                 const AdamWState& out, std::int64_t begin, std::int64_t end) {
  for_each_vector(end - begin, [&](std::int64_t offset, std::int64_t n) HWY_ATTR {
    const std::int64_t i = begin + offset;
    const auto g = hn::Mul(load(gradient + i, n), constant(f.gradient_scale));
    const auto m =
        hn::MulAdd(constant(f.one_minus_beta1), g, hn::Mul(constant(f.beta1), load(in.m + i, n)));
    const auto v = hn::MulAdd(hn::Mul(constant(f.one_minus_beta2), g), g,
                              hn::Mul(constant(f.beta2), load(in.v + i, n)));
    const auto root = hn::MulAdd(hn::Sqrt(v), constant(f.root_scale), constant(f.eps));
    const auto decayed = hn::Mul(load(in.w + i, n), constant(f.keep));
    store(m, out.m + i, n);
    store(v, out.v + i, n);
    store(hn::NegMulAdd(constant(f.step_size), hn::Div(m, root), decayed), out.w + i, n);
  });
}

double sum_of_squares_range(const float* x, std::int64_t count) {
  using F64 = hn::ScalableTag<double>;
  using HalfF32 = hn::Rebind<float, F64>;
  const auto step = static_cast<std::int64_t>(hn::Lanes(F64()));
  auto even = hn::Zero(F64()), odd = hn::Zero(F64());
  std::int64_t i = 0;
  for (; i + 2 * step <= count; i += 2 * step) {
    const auto a = hn::PromoteTo(F64(), hn::LoadU(HalfF32(), x + i));
    const auto b = hn::PromoteTo(F64(), hn::LoadU(HalfF32(), x + i + step));
    even = hn::MulAdd(a, a, even);
    odd = hn::MulAdd(b, b, odd);
  }
  double sum = hn::GetLane(hn::SumOfLanes(F64(), hn::Add(even, odd)));
  for (; i < count; ++i) sum += static_cast<double>(x[i]) * x[i];
  return sum;
}

}  // namespace troupe::tensor::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::tensor {
namespace {

constexpr std::int64_t kGrain = 4096;  // elements

HWY_EXPORT(adamw_range);
HWY_EXPORT(sum_of_squares_range);

}  // namespace

void CpuOps::run_sums_of_squares(Stream&, const Tensor& x, std::int64_t piece, const Tensor& sums) {
  const std::int64_t count = x.num_elements();
  const auto run = HWY_DYNAMIC_DISPATCH(sum_of_squares_range);
  const std::int64_t pieces_at_once = std::max<std::int64_t>(1, kGrain / piece);
  parallel_ranges(
      threads_, sums.num_elements(), pieces_at_once, [&](std::int64_t first, std::int64_t end) {
        for (std::int64_t i = first; i < end; ++i)
          sums.as<double>()[i] = run(x.as<float>() + i * piece, std::min(piece, count - i * piece));
      });
}

void CpuOps::run_adamw(Stream& stream, std::span<const AdamWUpdate> updates) {
  for (const AdamWUpdate& u : updates) {
    const AdamWState in{u.w.as<float>(), u.m.as<float>(), u.v.as<float>()};
    const AdamWState out{u.w_out.as<float>(), u.m_out.as<float>(), u.v_out.as<float>()};
    call_for_ranges(threads_, u.gradient.num_elements(), kGrain, HWY_DYNAMIC_DISPATCH(adamw_range),
                    AdamWFactors(u.step), u.gradient.as<float>(), in, out);
    if (u.copy) copy(stream, u.w_out, u.copy);
  }
}

}  // namespace troupe::tensor
#endif
