#include "tensor/cuda/kernels/attention/attention_backward.h"
#include "tensor/cuda/kernels/grid/dispatch.h"
#include "tensor/cuda/kernels/grid/elementwise.h"

namespace troupe::tensor::cuda {
namespace {

constexpr unsigned kDeltaThreads = 256, kDeltaLanes = 8;

/// Eight lanes add the products of a row of one head.
template <int m, typename T>
__global__ void __launch_bounds__(kDeltaThreads)
    attention_delta_kernel(const AttentionArguments x) {
  const std::int64_t rows = std::int64_t{x.batch} * x.seq_len * x.heads;
  const std::int64_t step = std::int64_t{gridDim.x} * (kDeltaThreads / kDeltaLanes);
  const int lane = static_cast<int>(threadIdx.x % kDeltaLanes);
  const std::int64_t own =
      std::int64_t{blockIdx.x} * (kDeltaThreads / kDeltaLanes) + threadIdx.x / kDeltaLanes;
  for (std::int64_t begin = 0; begin < rows; begin += step) {  // all lanes of a warp, to the end
    const std::int64_t row = begin + own;
    float sum = 0;
    if (row < rows) {
      const T* dout = static_cast<const T*>(x.dout) + row * x.head_dim;
      const T* out = static_cast<const T*>(x.out) + row * x.head_dim;
      for (int d = lane * m; d < x.head_dim; d += static_cast<int>(kDeltaLanes) * m) {
        const Pack<m> a = load<m>(dout + d), b = load<m>(out + d);
#pragma unroll
        for (int i = 0; i < m; ++i) sum += a[i] * b[i];
      }
    }
#pragma unroll
    for (int lanes = 1; lanes < static_cast<int>(kDeltaLanes); lanes *= 2) {
      sum += __shfl_xor_sync(0xffffffff, sum, lanes);
    }
    if (row < rows && lane == 0) {
      const std::int64_t token = row / x.heads, head = row % x.heads;
      const std::int64_t batch = token / x.seq_len, position = token % x.seq_len;
      x.delta[(batch * x.heads + head) * x.seq_len + position] = sum;
    }
  }
}

}  // namespace

void launch_attention_delta(DType dtype, const AttentionArguments& x, cudaStream_t stream) {
  with_act_type(dtype, [&]<typename T>(Type<T>) {
    const bool aligned = aligned_rows<T>(x).out;
    const auto kernel =
        aligned ? attention_delta_kernel<kPack<T>, T> : attention_delta_kernel<1, T>;
    const std::int64_t lanes = std::int64_t{x.batch} * x.seq_len * x.heads * kDeltaLanes;
    launch(kernel, blocks_for(lanes, kDeltaThreads), kDeltaThreads, 0, stream, x);
  });
}

}  // namespace troupe::tensor::cuda
