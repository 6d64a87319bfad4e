#include "tensor/cuda/kernels/elements/elementwise_kernels.h"
#include "tensor/cuda/kernels/grid/elementwise.h"
#include "tensor/cuda/kernels/grid/packs.h"

namespace troupe::tensor::cuda {
namespace {

template <int n, typename T>
__global__ void __launch_bounds__(kElementThreads)
    scale_kernel(const T* x, float factor, T* y, std::int64_t count) {
  for_each_pack<n>(count, [&]<int w>(std::int64_t i, Width<w>) {
    auto values = load<w>(x + i);
#pragma unroll
    for (int j = 0; j < w; ++j) values[j] *= factor;
    store(values, y + i);
  });
}

template <int n, typename T>
__global__ void __launch_bounds__(kElementThreads)
    add_scaled_kernel(const T* x, float factor, const T* residual, T* y, std::int64_t count) {
  for_each_pack<n>(count, [&]<int w>(std::int64_t i, Width<w>) {
    const auto values = load<w>(x + i);
    auto sum = load<w>(residual + i);
#pragma unroll
    for (int j = 0; j < w; ++j) sum[j] = fmaf(values[j], factor, sum[j]);
    store(sum, y + i);
  });
}

template <int n>
__global__ void __launch_bounds__(kElementThreads)
    soft_cap_kernel(const float* x, float scale, float cap, float* y, std::int64_t count) {
  const float inner = scale / cap;
  for_each_pack<n>(count, [&]<int w>(std::int64_t i, Width<w>) {
    auto values = load<w>(x + i);
#pragma unroll
    for (int j = 0; j < w; ++j) values[j] = cap * tanhf(values[j] * inner);
    store(values, y + i);
  });
}

template <int n, typename T>
__global__ void __launch_bounds__(kElementThreads)
    soft_cap_backward_kernel(const float* y, const T* dy, float scale, float cap, T* dx,
                             std::int64_t count) {
  const float inverse = 1.0f / cap;
  for_each_pack<n>(count, [&]<int w>(std::int64_t i, Width<w>) {
    const auto capped = load<w>(y + i);
    auto gradient = load<w>(dy + i);
#pragma unroll
    for (int j = 0; j < w; ++j) {
      const float part = capped[j] * inverse;
      gradient[j] *= (1.0f - part * part) * scale;
    }
    store(gradient, dx + i);
  });
}

}  // namespace

void launch_scale(DType dtype, const void* x, float factor, void* y, std::int64_t count,
                  cudaStream_t stream) {
  with_pack(dtype, 0, {x, y}, [&]<typename T, int n>(PackOf<T, n>) {
    launch(scale_kernel<n, T>, blocks_for(count / n), kElementThreads, 0, stream, x, factor, y,
           count);
  });
}

void launch_add_scaled(DType dtype, const void* x, float factor, const void* residual, void* y,
                       std::int64_t count, cudaStream_t stream) {
  with_pack(dtype, 0, {x, residual, y}, [&]<typename T, int n>(PackOf<T, n>) {
    launch(add_scaled_kernel<n, T>, blocks_for(count / n), kElementThreads, 0, stream, x, factor,
           residual, y, count);
  });
}

void launch_soft_cap(const float* x, float scale, float cap, float* y, std::int64_t count,
                     cudaStream_t stream) {
  constexpr int kWide = kPack<float>;
  const bool packed = are_aligned({x, y});
  launch(packed ? soft_cap_kernel<kWide> : soft_cap_kernel<1>,
         blocks_for(packed ? count / kWide : count), kElementThreads, 0, stream, x, scale, cap, y,
         count);
}

void launch_soft_cap_backward(DType dtype, const float* y, const void* dy, float scale, float cap,
                              void* dx, std::int64_t count, cudaStream_t stream) {
  with_pack(dtype, 0, {y, dy, dx}, [&]<typename T, int n>(PackOf<T, n>) {
    launch(soft_cap_backward_kernel<n, T>, blocks_for(count / n), kElementThreads, 0, stream, y, dy,
           scale, cap, dx, count);
  });
}

}  // namespace troupe::tensor::cuda
