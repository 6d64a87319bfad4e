#include "tensor/cuda/kernels/grid/dispatch.h"
#include "tensor/cuda/kernels/grid/kept_rows.h"
#include "tensor/cuda/kernels/grid/launch_shape.h"
#include "tensor/cuda/kernels/grid/row_packs.h"
#include "tensor/cuda/kernels/grid/row_sums.h"
#include "tensor/cuda/kernels/rows/norm_kernels.h"
#include "tensor/cuda/kernels/rows/norm_row.h"

namespace troupe::tensor::cuda {
namespace {

/// Rows that fit into the registers of their threads. The next row is on its way while this one is
/// summed; w and b are read once.
template <typename T, int kPacks, bool kCentered>
__global__ void __launch_bounds__(RowShape::kMostThreads) norm_kernel(NormForward norm) {
  constexpr int N = kPack<T>;
  using Packs = RowPacks<N, true>;
  SHARED(float, shared, kRowSumElements);
  unsigned turn = 0;
  const int columns = static_cast<int>(norm.columns), packs = columns / N;
  const auto length = static_cast<float>(columns);
  Pack<N> w[kPacks], b[kPacks];
  RawPack<T, N> kept[kPacks], next[kPacks];
#pragma unroll
  for (int k = 0; k < kPacks; ++k) {
    if (own_pack(k) >= packs) continue;
    w[k] = load_weights<kCentered, true, N>(norm.w, norm.plus, own_pack(k), columns);
    if constexpr (kCentered) b[k] = Packs::load(norm.b, own_pack(k), columns);
  }
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.y;
  std::int64_t row = std::int64_t{blockIdx.x} * blockDim.y + threadIdx.y;
  load_kept<T>(norm.x, row, norm.rows, columns, kept);
  // All rows of a block go round together, because row_sums() waits for all threads.
  for (; row - threadIdx.y < norm.rows; row += step) {
    load_kept<T>(norm.x, row + step, norm.rows, columns, next);
    Pack<N> x[kPacks];
#pragma unroll
    for (int k = 0; k < kPacks; ++k) x[k] = widen(kept[k]);
    float mean[1] = {}, squares[1] = {};
    if constexpr (kCentered) {
#pragma unroll
      for (int k = 0; k < kPacks; ++k) add_to(mean[0], x[k]);
      row_sums(mean, shared, turn);
      mean[0] /= length;
    }
#pragma unroll
    for (int k = 0; k < kPacks; ++k) {
      if (own_pack(k) < packs) add_squares<true>(squares[0], x[k], mean[0], own_pack(k), columns);
    }
    row_sums(squares, shared, turn);
    const float rstd = 1.0f / sqrtf(squares[0] / length + norm.eps);
#pragma unroll
    for (int k = 0; k < kPacks; ++k) {
      if (row >= norm.rows || own_pack(k) >= packs) continue;
      normalize<kCentered>(x[k], mean[0], rstd, w[k], b[k]);
      Packs::store(x[k], static_cast<T*>(norm.y) + row * columns, own_pack(k), columns);
    }
    write_statistics<kCentered>(norm, row, mean[0], rstd);
#pragma unroll
    for (int k = 0; k < kPacks; ++k) kept[k] = next[k];
  }
}

/// Any rows: each is read again for every use, from the cache.
template <typename T, bool kCentered, bool kAligned>
__global__ void __launch_bounds__(RowShape::kMostThreads) wide_norm_kernel(NormForward norm) {
  SHARED(float, shared, kRowSumElements);
  unsigned turn = 0;
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.y;
  std::int64_t row = std::int64_t{blockIdx.x} * blockDim.y + threadIdx.y;
  for (; row - threadIdx.y < norm.rows; row += step)
    norm_row<T, kCentered, kAligned>(norm, row, shared, turn);
}

template <typename T, bool kCentered>
void launch_rows(const NormForward& norm, cudaStream_t stream) {
  constexpr int N = kPack<T>;
  constexpr std::int64_t kBlocks = 4;  // for each multiprocessor
  const bool aligned = rows_are_aligned(norm.columns, N, {norm.x, norm.w, norm.b, norm.y});
  const std::int64_t packs =
      aligned ? RowPacks<N, true>::count(norm.columns) : RowPacks<N, false>::count(norm.columns);
  const RowShape shape(norm.rows, packs);
  const dim3 blocks(grid_blocks(shape.row_groups, kBlocks));
  if (!aligned) {
    launch(wide_norm_kernel<T, kCentered, false>, blocks, shape.threads, 0, stream, norm);
  } else if (!shape.fits) {
    launch(wide_norm_kernel<T, kCentered, true>, blocks, shape.threads, 0, stream, norm);
  } else if (shape.packs_per_thread == 1) {
    launch(norm_kernel<T, 1, kCentered>, blocks, shape.threads, 0, stream, norm);
  } else {
    launch(norm_kernel<T, 2, kCentered>, blocks, shape.threads, 0, stream, norm);
  }
}

}  // namespace

void launch_norm(const NormForward& norm, cudaStream_t stream) {
  with_act_type(norm.dtype, [&](auto type) {
    with_constant(norm.b != nullptr, [&](auto centered) {
      launch_rows<typename decltype(type)::type, centered()>(norm, stream);
    });
  });
}

}  // namespace troupe::tensor::cuda
