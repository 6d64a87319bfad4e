#include "tensor/cuda/kernels/elementwise_kernels.h"

#include "tensor/cuda/kernels/elementwise.h"
#include "tensor/cuda/kernels/packs.h"

namespace troupe::tensor::cuda {
namespace {

template <int n, typename T>
__global__ void __launch_bounds__(kElementThreads)
    accumulate_kernel(const T* x, T* y, std::int64_t count) {
  for_each_pack<n>(count, [&]<int w>(std::int64_t i, Width<w>) {
    const auto added = load<w>(x + i);
    auto sum = load<w>(y + i);
#pragma unroll
    for (int j = 0; j < w; ++j) sum[j] += added[j];
    store(sum, y + i);
  });
}

template <int n, typename From, typename To>
__global__ void __launch_bounds__(kElementThreads)
    convert_kernel(const From* x, To* y, std::int64_t count) {
  for_each_pack<n>(count, [&]<int w>(std::int64_t i, Width<w>) { store(load<w>(x + i), y + i); });
}

template <int n, typename T>
__global__ void __launch_bounds__(kElementThreads)
    add_bias_kernel(const float* b, const T* residual, T* y, std::int64_t rows,
                    std::int64_t columns) {
  for_each_pack_of_rows<n>(rows, columns, [&](std::int64_t row, std::int64_t column) {
    const std::int64_t i = row * columns + column;
    Pack<n> sum = load<n>(y + i);
    const Pack<n> bias = load<n>(b + column);
#pragma unroll
    for (int j = 0; j < n; ++j) sum[j] += bias[j];
    if (residual) {
      const Pack<n> added = load<n>(residual + i);
#pragma unroll
      for (int j = 0; j < n; ++j) sum[j] += added[j];
    }
    store(sum, y + i);
  });
}

template <typename From, typename To>
void convert(const From* x, To* y, std::int64_t n, cudaStream_t stream) {
  constexpr int kWidth = kPack<__nv_bfloat16>;
  const bool packed = are_aligned({x, y});
  const auto kernel = packed ? convert_kernel<kWidth, From, To> : convert_kernel<1, From, To>;
  launch(kernel, blocks_for(packed ? n / kWidth : n), kElementThreads, 0, stream, x, y, n);
}

}  // namespace

template <typename T>
void launch_accumulate(const T* added, T* sum, std::int64_t n, cudaStream_t stream) {
  const auto x = elements(added);
  const auto y = elements(sum);
  using E = std::remove_pointer_t<decltype(y)>;
  const bool packed = are_aligned({x, y});
  const auto kernel = packed ? accumulate_kernel<kPack<E>, E> : accumulate_kernel<1, E>;
  launch(kernel, blocks_for(packed ? n / kPack<E> : n), kElementThreads, 0, stream, x, y, n);
}
template void launch_accumulate(const float*, float*, std::int64_t, cudaStream_t);
template void launch_accumulate(const BFloat16*, BFloat16*, std::int64_t, cudaStream_t);

void launch_convert(const float* x, BFloat16* y, std::int64_t n, cudaStream_t stream) {
  convert(x, elements(y), n, stream);
}
void launch_convert(const BFloat16* x, float* y, std::int64_t n, cudaStream_t stream) {
  convert(elements(x), y, n, stream);
}

template <typename T>
void launch_add_bias(const float* b, const T* residual, T* sum, std::int64_t rows,
                     std::int64_t columns, cudaStream_t stream) {
  const auto added = elements(residual);
  const auto y = elements(sum);
  using E = std::remove_pointer_t<decltype(y)>;
  const bool packed = rows_are_aligned(columns, kPack<E>, {b, added, y});
  const auto kernel = packed ? add_bias_kernel<kPack<E>, E> : add_bias_kernel<1, E>;
  const auto [blocks, threads] = row_launch(rows, columns / (packed ? kPack<E> : 1));
  launch(kernel, blocks, threads, 0, stream, b, added, y, rows, columns);
}
template void launch_add_bias(const float*, const float*, float*, std::int64_t, std::int64_t,
                              cudaStream_t);
template void launch_add_bias(const float*, const BFloat16*, BFloat16*, std::int64_t, std::int64_t,
                              cudaStream_t);

}  // namespace troupe::tensor::cuda
