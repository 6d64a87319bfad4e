#pragma once

#include "tensor/cuda/kernels/grid/row_packs.h"
#include "tensor/cuda/kernels/grid/row_sums.h"
#include "tensor/cuda/kernels/rows/norm_kernels.h"

// The norm of a row, for kernels whose blocks have a RowShape. Its bits follow from the row and its
// alignment, whichever kernel computes it.

namespace troupe::tensor::cuda {

/// (x - mean) rstd w (+ b), in place.
template <bool kCentered, int N>
__device__ __forceinline__ void normalize(Pack<N>& x, float mean, float rstd, const Pack<N>& w,
                                          const Pack<N>& b) {
#pragma unroll
  for (int i = 0; i < N; ++i) {
    if constexpr (kCentered) {
      x[i] = (x[i] - mean) * rstd * w[i] + b[i];
    } else {
      x[i] = x[i] * rstd * w[i];
    }
  }
}

/// What the pack's columns are multiplied by.
template <bool kCentered, bool kAligned, int N>
__device__ __forceinline__ Pack<N> load_weights(const float* w, float plus, int pack, int columns) {
  Pack<N> weights = RowPacks<N, kAligned>::load(w, pack, columns);
  if constexpr (!kCentered) {
#pragma unroll
    for (int i = 0; i < N; ++i) weights[i] += plus;
  }
  return weights;
}

/// Adds the pack's numbers to `sum`.
template <int N>
__device__ __forceinline__ void add_to(float& sum, const Pack<N>& x) {
#pragma unroll
  for (int i = 0; i < N; ++i) sum += x[i];
}

/// Adds the squares of the pack's distances from the mean, as far as it lies within the row.
template <bool kAligned, int N>
__device__ __forceinline__ void add_squares(float& sum, const Pack<N>& x, float mean, int pack,
                                            int columns) {
#pragma unroll
  for (int i = 0; i < N; ++i) {
    if (RowPacks<N, kAligned>::has(pack, i, columns)) sum += (x[i] - mean) * (x[i] - mean);
  }
}

template <bool kCentered>
__device__ __forceinline__ void write_statistics(const NormForward& norm, std::int64_t row,
                                                 float mean, float rstd) {
  if (row >= norm.rows || threadIdx.x != 0) return;
  norm.rstd[row] = rstd;
  if constexpr (kCentered) norm.mean[row] = mean;
}

/// The norm of `row` of norm.x by its threads, which read it again for every use; none if there is
/// no such row. Each reads the packs threadIdx.x, threadIdx.x + blockDim.x, ... alone. All threads
/// of a block call it together, with what row_sums() takes.
template <typename T, bool kCentered, bool kAligned, typename Shared>
__device__ __forceinline__ void norm_row(const NormForward& norm, std::int64_t row, Shared& shared,
                                         unsigned& turn) {
  using Packs = RowPacks<kPack<T>, kAligned>;
  const int columns = static_cast<int>(norm.columns);
  const auto length = static_cast<float>(columns);
  const T* const x = static_cast<const T*>(norm.x) + row * columns;
  const int packs = row < norm.rows ? Packs::count(columns) : 0;
  const int first = static_cast<int>(threadIdx.x), stride = static_cast<int>(blockDim.x);
  float mean[1] = {}, squares[1] = {};
  if constexpr (kCentered) {
#pragma unroll 2
    for (int pack = first; pack < packs; pack += stride) {
      add_to(mean[0], Packs::load(x, pack, columns));
    }
    row_sums(mean, shared, turn);
    mean[0] /= length;
  }
#pragma unroll 2
  for (int pack = first; pack < packs; pack += stride) {
    add_squares<kAligned>(squares[0], Packs::load(x, pack, columns), mean[0], pack, columns);
  }
  row_sums(squares, shared, turn);
  const float rstd = 1.0f / sqrtf(squares[0] / length + norm.eps);
  for (int pack = first; pack < packs; pack += stride) {
    Pack<kPack<T>> v = Packs::load(x, pack, columns), b{};
    if constexpr (kCentered) b = Packs::load(norm.b, pack, columns);
    normalize<kCentered>(
        v, mean[0], rstd,
        load_weights<kCentered, kAligned, kPack<T>>(norm.w, norm.plus, pack, columns), b);
    Packs::store(v, static_cast<T*>(norm.y) + row * columns, pack, columns);
  }
  write_statistics<kCentered>(norm, row, mean[0], rstd);
}

}  // namespace troupe::tensor::cuda
