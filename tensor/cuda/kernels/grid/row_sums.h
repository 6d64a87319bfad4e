#pragma once

#include "tensor/cuda/kernels/grid/grid.h"

namespace troupe::tensor::cuda {

/// The sum over the warp, in every lane. Both partners of an exchange add the same two numbers, so
/// that all lanes hold the same bits.
template <typename T>
__device__ __forceinline__ T warp_sum(T x) {
#pragma unroll
  for (int lanes = 16; lanes > 0; lanes /= 2) x += __shfl_xor_sync(0xffffffffu, x, lanes);
  return x;
}

__device__ __forceinline__ float warp_max(float x) {
#pragma unroll
  for (int lanes = 16; lanes > 0; lanes /= 2) x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, lanes));
  return x;
}

/// Elements of the shared array that row_sums() of up to two values needs in a block of up to 512
/// threads.
inline constexpr int kRowSumElements = 2 * 16 * 2;

/// Replaces each value by its sum over the blockDim.x threads of a row, threads of ascending number
/// after the sums of their warps. A block has blockDim.y rows, all of whose threads come here.
/// `turn` begins at 0 and is used for nothing else: two parts of the array take turns, so that one
/// barrier per call is enough.
template <int kValues, typename Shared>
__device__ __forceinline__ void row_sums(float (&values)[kValues], Shared& shared, unsigned& turn) {
#pragma unroll
  for (int i = 0; i < kValues; ++i) values[i] = warp_sum(values[i]);
  const unsigned warps = blockDim.x / 32;
  if (warps == 1) return;
  const unsigned row = turn * (kRowSumElements / 2) + threadIdx.y * warps * kValues;
  turn ^= 1;
  if (threadIdx.x % 32 == 0) {
#pragma unroll
    for (int i = 0; i < kValues; ++i) shared[row + threadIdx.x / 32 * kValues + i] = values[i];
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < kValues; ++i) values[i] = shared[row + i];
  for (unsigned warp = 1; warp < warps; ++warp) {
#pragma unroll
    for (int i = 0; i < kValues; ++i) values[i] += shared[row + warp * kValues + i];
  }
}

}  // namespace troupe::tensor::cuda
