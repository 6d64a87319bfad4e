#include "tensor/cuda/runtime/stream_memory.h"

#include "tensor/cuda/runtime/cuda_error.h"

namespace troupe::tensor::cuda {

void queue_copy(void* dst, const void* src, std::size_t bytes, cudaStream_t stream) {
  check(cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDefault, stream), "cudaMemcpyAsync");
}

void queue_copy_rows(void* dst, std::size_t dst_pitch, const void* src, std::size_t src_pitch,
                     std::size_t row_bytes, std::size_t rows, cudaStream_t stream) {
  check(
      cudaMemcpy2DAsync(dst, dst_pitch, src, src_pitch, row_bytes, rows, cudaMemcpyDefault, stream),
      "cudaMemcpy2DAsync");
}

void queue_zeros(void* memory, std::size_t bytes, cudaStream_t stream) {
  check(cudaMemsetAsync(memory, 0, bytes, stream), "cudaMemsetAsync");
}

}  // namespace troupe::tensor::cuda
