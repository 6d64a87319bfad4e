#pragma once

#include <cstddef>

#include "tensor/cuda/kernels/grid/grid_types.h"

// What a stream does with memory without a kernel. The emulated device of the tests has these
// functions on host memory.

namespace troupe::tensor::cuda {

/// Queues dst[bytes] = src[bytes]; each is device or pinned memory. The two do not overlap.
void queue_copy(void* dst, const void* src, std::size_t bytes, cudaStream_t stream);
/// Queues rows of `row_bytes` from src, `src_pitch` bytes apart, to dst, `dst_pitch` apart.
void queue_copy_rows(void* dst, std::size_t dst_pitch, const void* src, std::size_t src_pitch,
                     std::size_t row_bytes, std::size_t rows, cudaStream_t stream);
/// Queues zeros for memory[bytes].
void queue_zeros(void* memory, std::size_t bytes, cudaStream_t stream);

}  // namespace troupe::tensor::cuda
