#include "tensor/cuda/kernels/attention/attention_kernels.h"
#include "tensor/cuda/kernels/grid/dispatch.h"
#include "tensor/cuda/kernels/grid/elementwise.h"
#include "tensor/cuda/kernels/grid/packs.h"

namespace troupe::tensor::cuda {
namespace {

template <typename T>
__global__ void __launch_bounds__(kElementThreads)
    clear_padding_kernel(const AttentionArguments x, std::int64_t columns, T* data) {
  const std::int64_t end = x.starts[x.documents];
  for_each_item((x.seq_len - end) * columns,
                [&](std::int64_t item) { data[end * columns + item] = from_float32<T>(0.0f); });
}

}  // namespace

void launch_clear_padding(DType dtype, const AttentionArguments& x, void* data, std::int64_t heads,
                          cudaStream_t stream) {
  with_act_type(dtype, [&]<typename T>(Type<T>) {
    const std::int64_t columns = heads * x.head_dim;
    launch(clear_padding_kernel<T>, blocks_for(x.seq_len * columns), kElementThreads, 0, stream, x,
           columns, static_cast<T*>(data));
  });
}

}  // namespace troupe::tensor::cuda
