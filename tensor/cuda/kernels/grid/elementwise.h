#pragma once

#include <algorithm>
#include <cstdint>

#include "tensor/cuda/kernels/grid/dispatch.h"
#include "tensor/cuda/kernels/grid/grid.h"
#include "tensor/cuda/kernels/grid/launch_shape.h"
#include "tensor/cuda/kernels/grid/packs.h"

// The shape of an element-wise kernel: the threads of all blocks stride over the elements, with
// several consecutive ones each.

namespace troupe::tensor::cuda {

inline constexpr unsigned kElementThreads = 256;

/// Number of blocks for `items` items of a thread each, over which the threads stride: at most as
/// many blocks as a GPU holds at once.
inline unsigned blocks_for(std::int64_t items, unsigned threads = kElementThreads) {
  return grid_blocks(divide_up<std::int64_t>(items, threads), 2048 / threads);
}

/// Calls body(i) by this thread for its share of i = 0, 1, ..., count - 1.
template <typename Body>
__device__ __forceinline__ void for_each_item(std::int64_t count, const Body& body) {
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step) {
    body(i);
  }
}

/// The elements that a thread takes at a time: n of the kernels' type T.
template <typename T, int n>
struct PackOf {};

/// Calls body(PackOf<T, n>()) for act elements: in packs of 16 bytes where rows of so many columns
/// at these addresses (null: not used) are aligned to them, else one at a time. Elements that are
/// not in rows have 0 columns.
template <typename Body>
void with_pack(DType dtype, std::int64_t columns, std::initializer_list<const void*> addresses,
               const Body& body) {
  with_act_type(dtype, [&]<typename T>(Type<T>) {
    if (rows_are_aligned(columns, kPack<T>, addresses)) {
      body(PackOf<T, kPack<T>>());
    } else {
      body(PackOf<T, 1>());
    }
  });
}

/// A number of elements that is known to the compiler.
template <int n>
struct Width {};

/// Calls body(i, Width<n>()) by this thread for its share of i = 0, n, 2 n, ... and, for the
/// elements at the end that are fewer than n, body(i, Width<1>()).
template <int n, typename Body>
__device__ __forceinline__ void for_each_pack(std::int64_t count, const Body& body) {
  for_each_item(count / n, [&](std::int64_t i) { body(i * n, Width<n>()); });
  if constexpr (n > 1) {
    const std::int64_t first = count / n * n;
    for_each_item(count - first, [&](std::int64_t i) { body(first + i, Width<1>()); });
  }
}

/// The launch of for_each_pack_of_rows(): a warp has consecutive packs of a row, the warps of a
/// block have rows one below the other.
struct RowLaunch {
  dim3 blocks, threads;
};
inline RowLaunch row_launch(std::int64_t rows, std::int64_t packs) {
  constexpr unsigned kLanes = 32, kWarps = kElementThreads / kLanes;
  const unsigned across = std::min(blocks_for(packs, kLanes), blocks_for(packs * rows));
  const unsigned down = std::min(blocks_for(rows, kWarps), blocks_for(packs * rows) / across + 1);
  return {dim3(across, down), dim3(kLanes, kWarps)};
}

/// Calls body(row, column) by this thread for its share of the packs of n elements of a matrix, of
/// which a row has a whole number. For a launch of row_launch(rows, columns / n).
template <int n, typename Body>
__device__ __forceinline__ void for_each_pack_of_rows(std::int64_t rows, std::int64_t columns,
                                                      const Body& body) {
  const std::int64_t first = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * n;
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x * n;
  for (std::int64_t row = std::int64_t{blockIdx.y} * blockDim.y + threadIdx.y; row < rows;
       row += std::int64_t{gridDim.y} * blockDim.y) {
    for (std::int64_t column = first; column < columns; column += step) body(row, column);
  }
}

}  // namespace troupe::tensor::cuda
