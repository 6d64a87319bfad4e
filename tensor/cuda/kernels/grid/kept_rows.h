#pragma once

#include "tensor/cuda/kernels/grid/row_packs.h"

// Rows that the registers of their threads hold, in kPacks aligned packs each.

namespace troupe::tensor::cuda {

/// The k-th pack of this thread.
__device__ __forceinline__ int own_pack(int k) {
  return static_cast<int>(threadIdx.x + k * blockDim.x);
}

/// This thread's packs of a row of from[rows, columns], zero where it has none: past the end of the
/// row, and of a row that does not exist.
template <typename T, int kPacks>
__device__ __forceinline__ void load_kept(const void* from, std::int64_t row, std::int64_t rows,
                                          int columns, RawPack<T, kPack<T>> (&to)[kPacks]) {
#pragma unroll
  for (int k = 0; k < kPacks; ++k) {
    to[k] = {};
    if (row >= rows || own_pack(k) >= columns / kPack<T>) continue;
    to[k] = RowPacks<kPack<T>, true>::load_raw(static_cast<const T*>(from) + row * columns,
                                               own_pack(k), columns);
  }
}

}  // namespace troupe::tensor::cuda
