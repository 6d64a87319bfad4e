#include "tensor/cuda/kernels/adamw_kernels.h"
#include "tensor/cuda/kernels/dispatch.h"
#include "tensor/cuda/kernels/launch_shape.h"
#include "tensor/cuda/kernels/row_packs.h"

namespace troupe::tensor::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int N = 4;

/// Four loads of 16 bytes are on their way before the first is used.
template <typename Copy, bool kAligned>
__global__ void __launch_bounds__(kThreads) adamw_kernel(AdamWUpdate a) {
  const AdamWFactors& f = a.factors;
  using Packs = RowPacks<N, kAligned>;
  const std::int64_t packs = Packs::count(a.count);
  const std::int64_t step = std::int64_t{gridDim.x} * kThreads;
  for (std::int64_t pack = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; pack < packs;
       pack += step) {
    const Pack<N> gradient = Packs::load(a.gradient, pack, a.count);
    Pack<N> w = Packs::load(a.w, pack, a.count);
    Pack<N> m = Packs::load(a.m, pack, a.count);
    Pack<N> v = Packs::load(a.v, pack, a.count);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const float g = gradient[i] * f.gradient_scale;
      m[i] = f.beta1 * m[i] + f.one_minus_beta1 * g;
      v[i] = f.beta2 * v[i] + f.one_minus_beta2 * g * g;
      const float root = sqrtf(v[i]) * f.root_scale + f.eps;
      w[i] = w[i] * f.keep - f.step_size * (m[i] / root);
    }
    Packs::store(w, a.w_out, pack, a.count);
    Packs::store(m, a.m_out, pack, a.count);
    Packs::store(v, a.v_out, pack, a.count);
    if (a.copy) Packs::store(w, static_cast<Copy*>(a.copy), pack, a.count);
  }
}

}  // namespace

void launch_adamw(const AdamWUpdate& a, cudaStream_t stream) {
  constexpr std::int64_t kBlocks = 8;  // for each multiprocessor
  const bool aligned =
      rows_are_aligned(a.count, N, {a.gradient, a.w, a.m, a.v, a.w_out, a.m_out, a.v_out, a.copy});
  with_act_type(a.copy_dtype, [&](auto copy) {
    with_constant(aligned, [&](auto is_aligned) {
      using Copy = typename decltype(copy)::type;
      const std::int64_t packs = RowPacks<N, is_aligned()>::count(a.count);
      launch(adamw_kernel<Copy, is_aligned()>,
             dim3(grid_blocks(divide_up<std::int64_t>(packs, kThreads), kBlocks)), dim3(kThreads),
             0, stream, a);
    });
  });
}

}  // namespace troupe::tensor::cuda
