#include "tensor/cuda/kernels/grid/dispatch.h"
#include "tensor/cuda/kernels/grid/launch_shape.h"
#include "tensor/cuda/kernels/grid/packs.h"
#include "tensor/cuda/kernels/grid/row_sums.h"
#include "tensor/cuda/kernels/rows/reduction_kernels.h"

namespace troupe::tensor::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kAtOnce = 4;             // loads of a thread that are on their way
constexpr int kMostSumThreads = 1024;  // of launch_sum

/// Writes the sum over the block's threads, which are whole warps, first warp first.
template <typename Shared>
__device__ __forceinline__ void write_block_sum(double sum, Shared& shared, double* to) {
  sum = warp_sum(sum);
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (unsigned warp = 1; warp < blockDim.x / 32; ++warp) sum += shared[warp];
  *to = sum;
}

__global__ void __launch_bounds__(kMostSumThreads)
    sum_kernel(const double* parts, std::int64_t count, double* to) {
  SHARED(double, shared, kMostSumThreads / 32);
  double sum = 0;
#pragma unroll 4
  for (std::int64_t i = threadIdx.x; i < count; i += blockDim.x) sum += parts[i];
  write_block_sum(sum, shared, to);
}

/// The elements 4 i to 4 i + 3, zero past the end.
template <bool kAligned>
__device__ __forceinline__ Pack<4> load_four(const float* x, std::int64_t i, std::int64_t count) {
  const std::int64_t first = 4 * i;
  if (kAligned && first + 4 <= count) return load<4>(x + first);
  const auto at = [&](std::int64_t k) { return k < count ? x[k] : 0.0f; };
  return {{at(first), at(first + 1), at(first + 2), at(first + 3)}};
}

__device__ __forceinline__ double square(float x) {
  return static_cast<double>(x) * x;
}

/// Block i writes the sum of the i-th piece. The order of a sum is the same whether x is aligned to
/// 16 bytes or not.
template <bool kAligned>
__global__ void __launch_bounds__(kThreads)
    sums_of_squares_kernel(const float* x, std::int64_t count, std::int64_t piece, double* sums) {
  SHARED(double, shared, kThreads / 32);
  const std::int64_t begin = blockIdx.x * piece, left = count - begin;
  const std::int64_t size = left < piece ? left : piece, fours = (size + 3) / 4;
  double even = 0, odd = 0;
  for (std::int64_t first = threadIdx.x; first < fours; first += kThreads * kAtOnce) {
    Pack<4> v[kAtOnce];
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k)
      v[k] = load_four<kAligned>(x + begin, first + k * kThreads, size);
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      even += square(v[k][0]);
      odd += square(v[k][1]);
      even += square(v[k][2]);
      odd += square(v[k][3]);
    }
  }
  write_block_sum(even + odd, shared, sums + blockIdx.x);
}

}  // namespace

void launch_sum(const double* parts, std::int64_t count, double* sum, cudaStream_t stream) {
  constexpr std::int64_t kPartsOfAThread = 4;  // at least
  const std::int64_t threads =
      std::clamp<std::int64_t>(divide_up(count, kPartsOfAThread), 1, kMostSumThreads);
  launch(sum_kernel, dim3(1), dim3(whole_warps(threads)), 0, stream, parts, count, sum);
}

void launch_sums_of_squares(const float* x, std::int64_t count, std::int64_t piece, double* sums,
                            cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>(divide_up(count, piece));
  const bool is_aligned = are_aligned({x}) && piece % 4 == 0;
  const auto launch_for = [&](auto aligned) {
    launch(sums_of_squares_kernel<aligned()>, dim3(blocks), dim3(kThreads), 0, stream, x, count,
           piece, sums);
  };
  with_constant(is_aligned, launch_for);
}

}  // namespace troupe::tensor::cuda
