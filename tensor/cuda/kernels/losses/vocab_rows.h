#pragma once

#include <algorithm>

#include "tensor/cuda/kernels/grid/launch_shape.h"
#include "tensor/cuda/kernels/grid/row_packs.h"

// Rows of logits: a block takes one at a time, in packs of four columns.

namespace troupe::tensor::cuda {

inline constexpr int kVocabPack = 4;
inline constexpr int kVocabThreads = 512;  // of a block, at most
inline constexpr int kVocabWarps = kVocabThreads / 32;
inline constexpr std::int64_t kVocabBlocks = 2;  // for each multiprocessor, if they are that large

inline constexpr float kMinusInfinity = -__builtin_huge_valf();

/// The launch for rows of so many columns.
struct VocabLaunch {
  VocabLaunch(std::int64_t rows, std::int64_t columns) {
    constexpr std::int64_t kPacksOfAThread = 4;  // at least, if there are so many
    const std::int64_t threads_wanted =
        divide_up<std::int64_t>(columns, kVocabPack * kPacksOfAThread);
    threads = std::min<unsigned>(kVocabThreads, whole_warps(threads_wanted));
    blocks = grid_blocks(rows, kVocabBlocks * kVocabThreads / threads);
  }

  unsigned threads, blocks;
};

/// Calls body(pack, values), values being a Pack<kVocabPack>, for this thread's packs of the row,
/// but not for its `skipped` first ones; from the last to the first if kBackward. Four loads are on
/// their way at a time.
template <bool kAligned, bool kBackward = false, typename Body>
__device__ __forceinline__ void visit_packs(const float* row, int columns, int skipped,
                                            const Body& body) {
  using Packs = RowPacks<kVocabPack, kAligned>;
  constexpr int kAtOnce = 4;
  const int stride = static_cast<int>(blockDim.x), first = static_cast<int>(threadIdx.x);
  const int packs = Packs::count(columns);
  const int own = (packs - first + stride - 1) / stride - skipped;
  const auto pack_of = [&](int i) {
    return first + (skipped + (kBackward ? own - 1 - i : i)) * stride;
  };
  for (int i = 0; i < own; i += kAtOnce) {
    RawPack<float, kVocabPack> raw[kAtOnce];
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      if (i + k < own) raw[k] = Packs::load_raw(row, pack_of(i + k), columns);
    }
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      if (i + k < own) body(pack_of(i + k), widen(raw[k]));
    }
  }
}

/// The thread that has a column, 0 for one that is not in the row: it alone reads and writes there.
template <bool kAligned>
__device__ __forceinline__ bool is_own(std::int64_t column, int columns) {
  if (column < 0 || column >= columns) return threadIdx.x == 0;
  const int pack = RowPacks<kVocabPack, kAligned>::pack_of(static_cast<int>(column));
  return static_cast<unsigned>(pack) % blockDim.x == threadIdx.x;
}

}  // namespace troupe::tensor::cuda
