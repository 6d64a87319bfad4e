#pragma once

#include <algorithm>
#include <cstdint>

#include "tensor/cuda/kernels/grid/grid.h"

namespace troupe::tensor::cuda {

/// The multiprocessors of an H100 or H200. Grids follow this number and the shape of the tensors,
/// never the GPU at hand: a sum that is divided among blocks has the same order, and the same bits,
/// on all of them.
inline constexpr std::int64_t kMultiprocessors = 132;

template <typename Integer>
constexpr Integer divide_up(Integer a, Integer b) {
  return (a + b - 1) / b;
}

constexpr unsigned whole_warps(std::int64_t threads) {
  return static_cast<unsigned>(divide_up<std::int64_t>(threads, 32) * 32);
}

/// The number of blocks for so many pieces of work, at most so many for each multiprocessor.
inline unsigned grid_blocks(std::int64_t work, std::int64_t per_multiprocessor) {
  return static_cast<unsigned>(
      std::clamp<std::int64_t>(work, 1, per_multiprocessor * kMultiprocessors));
}

/// How kernels that reduce rows divide them: a block takes threads.y rows at a time, each by
/// threads.x threads.
struct RowShape {
  static constexpr unsigned kMostThreads = 512;    // of a block
  static constexpr unsigned kFewestThreads = 256;  // if there are rows enough

  RowShape(std::int64_t rows, std::int64_t packs) : packs_per_thread(packs <= 32 ? 1 : 2) {
    const std::int64_t wanted = divide_up<std::int64_t>(packs, packs_per_thread);
    threads.x = std::min(kMostThreads, whole_warps(wanted));
    const std::int64_t together = std::max(1u, kFewestThreads / threads.x);
    threads.y = static_cast<unsigned>(std::clamp<std::int64_t>(rows, 1, together));
    row_groups = divide_up<std::int64_t>(rows, threads.y);
    fits = packs <= std::int64_t{threads.x} * packs_per_thread;
  }

  dim3 threads;
  int packs_per_thread;     ///< that a thread can keep in registers, 1 or 2
  std::int64_t row_groups;  ///< the rows, taken threads.y at a time
  bool fits = false;        ///< whether a row's threads can keep all of it
};

}  // namespace troupe::tensor::cuda
