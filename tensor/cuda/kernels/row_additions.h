#pragma once

#include "tensor/cuda/kernels/row_packs.h"

namespace troupe::tensor::cuda {

/// Adds to a pack of a table's row the same pack of `count` rows of dx, one after the other; the
/// i-th of them is row row_of(i). Several rows are on their way at a time.
template <bool kAligned, int N, typename T, typename RowOf>
__device__ __forceinline__ void add_rows(const T* dx, std::int64_t count, const RowOf& row_of,
                                         int pack, int columns, float* to) {
  using Packs = RowPacks<N, kAligned>;
  constexpr int kAtOnce = 8;
  Pack<N> sum = Packs::load(to, pack, columns);
  for (std::int64_t first = 0; first < count; first += kAtOnce) {
    RawPack<T, N> rows[kAtOnce];
#pragma unroll
    for (int r = 0; r < kAtOnce; ++r) {
      if (first + r >= count) continue;
      rows[r] = Packs::load_raw(dx + row_of(first + r) * columns, pack, columns);
    }
#pragma unroll
    for (int r = 0; r < kAtOnce; ++r) {
      if (first + r >= count) continue;
      const Pack<N> row = widen(rows[r]);
#pragma unroll
      for (int i = 0; i < N; ++i) sum[i] += row[i];
    }
  }
  Packs::store(sum, to, pack, columns);
}

}  // namespace troupe::tensor::cuda
