#include "tensor/cuda/kernels/grid/dispatch.h"
#include "tensor/cuda/kernels/grid/kept_rows.h"
#include "tensor/cuda/kernels/grid/launch_shape.h"
#include "tensor/cuda/kernels/grid/row_packs.h"
#include "tensor/cuda/kernels/grid/row_sums.h"
#include "tensor/cuda/kernels/rows/norm_kernels.h"
#include "tensor/cuda/kernels/rows/norm_row.h"
#include "tensor/cuda/kernels/rows/reduction_kernels.h"

// With n = (x - mean) rstd and g = dy (plus + w): dx = residual + rstd (g - mean(g) - n mean(g n)),
// dw = the column sums of dy n, db = those of dy. RMSNorm has no mean and no mean(g).

namespace troupe::tensor::cuda {
namespace {

constexpr std::int64_t kBlocks = 2;  // for each multiprocessor

/// What a row's threads know of it before they read it.
struct RowScale {
  float mean, rstd;
};

template <bool kCentered>
__device__ __forceinline__ RowScale scale_of(const NormBackward& norm, std::int64_t row) {
  if (row >= norm.rows) return {0, 0};
  return {kCentered ? norm.mean[row] : 0.0f, norm.rstd[row]};
}

/// Adds the pack's parts of the sums of g n and, if centered, of g.
template <int N, int kSums>
__device__ __forceinline__ void add_to_sums(const Pack<N>& dy, const Pack<N>& x, const Pack<N>& w,
                                            RowScale row, float (&sums)[kSums]) {
#pragma unroll
  for (int i = 0; i < N; ++i) {
    const float g = dy[i] * w[i];
    sums[0] += g * ((x[i] - row.mean) * row.rstd);
    if constexpr (kSums == 2) sums[1] += g;
  }
}

/// Adds to `dx`, which holds the residual, the gradient from dy.
template <int N, int kSums>
__device__ __forceinline__ void add_gradient(const Pack<N>& dy, const Pack<N>& x, const Pack<N>& w,
                                             RowScale row, const float (&means)[kSums],
                                             Pack<N>& dx) {
#pragma unroll
  for (int i = 0; i < N; ++i) {
    float inner = dy[i] * w[i];
    if constexpr (kSums == 2) inner -= means[1];
    inner -= (x[i] - row.mean) * row.rstd * means[0];
    dx[i] += inner * row.rstd;
  }
}

/// Adds a row's part of dw and, if centered, db.
template <bool kCentered, int N>
__device__ __forceinline__ void add_weight_gradient(const Pack<N>& dy, const Pack<N>& x,
                                                    RowScale row, Pack<N>& dw, Pack<N>& db) {
#pragma unroll
  for (int i = 0; i < N; ++i) {
    dw[i] += dy[i] * ((x[i] - row.mean) * row.rstd);
    if constexpr (kCentered) db[i] += dy[i];
  }
}

/// Adds the sums over columns of the rows that a block takes at a time, first row first, and writes
/// them as the block's partial sums. All threads of the block come here.
template <int kPacks, int N>
__device__ __forceinline__ void write_partial(const Pack<N> (&sums)[kPacks], int columns,
                                              float* partial) {
  float* const shared = dynamic_shared<float>();
  float* const own = blockDim.y == 1 ? partial : shared + std::int64_t{threadIdx.y} * columns;
#pragma unroll
  for (int k = 0; k < kPacks; ++k) {
    if (own_pack(k) < columns / N) RowPacks<N, true>::store(sums[k], own, own_pack(k), columns);
  }
  if (blockDim.y == 1) return;
  __syncthreads();
  const int first = static_cast<int>(threadIdx.y * blockDim.x + threadIdx.x);
  for (int c = first; c < columns; c += static_cast<int>(blockDim.x * blockDim.y)) {
    float sum = shared[c];
    for (int y = 1; y < static_cast<int>(blockDim.y); ++y) sum += shared[y * columns + c];
    partial[c] = sum;
  }
  __syncthreads();
}

/// What a thread keeps of a row.
template <typename T, int kPacks>
struct KeptGradient {
  RawPack<T, kPack<T>> dy[kPacks], x[kPacks];
  RowScale scale;

  template <bool kCentered>
  __device__ __forceinline__ void load(const NormBackward& norm, std::int64_t row, int columns) {
    load_kept<T>(norm.dy, row, norm.rows, columns, dy);
    load_kept<T>(norm.x, row, norm.rows, columns, x);
    scale = scale_of<kCentered>(norm, row);
  }
};

/// Rows that fit into the registers of their threads. The next row is on its way while this one is
/// summed. Block i writes its rows' part of dw, and then of db, to partial[i, ...].
template <typename T, int kPacks, bool kCentered>
__global__ void __launch_bounds__(RowShape::kMostThreads)
    norm_backward_kernel(NormBackward norm, float* partial) {
  constexpr int N = kPack<T>, kSums = kCentered ? 2 : 1;
  using Packs = RowPacks<N, true>;
  SHARED(float, shared, kRowSumElements);
  unsigned turn = 0;
  const int columns = static_cast<int>(norm.columns), packs = columns / N;
  KeptGradient<T, kPacks> kept, next;
  RawPack<T, N> residual[kPacks];
  Pack<N> dw[kPacks] = {}, db[kPacks] = {};
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.y;
  std::int64_t row = std::int64_t{blockIdx.x} * blockDim.y + threadIdx.y;
  kept.template load<kCentered>(norm, row, columns);
  // All rows of a block go round together, because row_sums() waits for all threads.
  for (; row - threadIdx.y < norm.rows; row += step) {
    load_kept<T>(norm.residual, row, norm.residual ? norm.rows : 0, columns, residual);
    next.template load<kCentered>(norm, row + step, columns);
    float sums[kSums] = {};
    Pack<N> w[kPacks];
#pragma unroll
    for (int k = 0; k < kPacks; ++k) {
      if (own_pack(k) >= packs) continue;
      w[k] = load_weights<kCentered, true, N>(norm.w, norm.plus, own_pack(k), columns);
      add_to_sums(widen(kept.dy[k]), widen(kept.x[k]), w[k], kept.scale, sums);
    }
    row_sums(sums, shared, turn);
#pragma unroll
    for (int i = 0; i < kSums; ++i) sums[i] /= static_cast<float>(columns);
#pragma unroll
    for (int k = 0; k < kPacks; ++k) {
      if (row >= norm.rows || own_pack(k) >= packs) continue;
      const Pack<N> dy = widen(kept.dy[k]), x = widen(kept.x[k]);
      Pack<N> dx = widen(residual[k]);
      add_gradient(dy, x, w[k], kept.scale, sums, dx);
      Packs::store(dx, static_cast<T*>(norm.dx) + row * columns, own_pack(k), columns);
      add_weight_gradient<kCentered>(dy, x, kept.scale, dw[k], db[k]);
    }
    kept = next;
  }
  float* const own = partial + std::int64_t{blockIdx.x} * kSums * columns;
  write_partial(dw, columns, own);
  if constexpr (kCentered) write_partial(db, columns, own + columns);
}

/// dx of any rows: each is read twice, the second time from the cache.
template <typename T, bool kCentered, bool kAligned>
__global__ void __launch_bounds__(RowShape::kMostThreads)
    wide_norm_backward_kernel(NormBackward norm) {
  constexpr int kSums = kCentered ? 2 : 1;
  using Packs = RowPacks<kPack<T>, kAligned>;
  SHARED(float, shared, kRowSumElements);
  unsigned turn = 0;
  const int columns = static_cast<int>(norm.columns);
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.y;
  std::int64_t row = std::int64_t{blockIdx.x} * blockDim.y + threadIdx.y;
  for (; row - threadIdx.y < norm.rows; row += step) {
    const std::int64_t begin = row * columns;
    const T* const dy = static_cast<const T*>(norm.dy) + begin;
    const T* const x = static_cast<const T*>(norm.x) + begin;
    const int packs = row < norm.rows ? Packs::count(columns) : 0;
    const int first = static_cast<int>(threadIdx.x), stride = static_cast<int>(blockDim.x);
    const RowScale scale = scale_of<kCentered>(norm, row);
    float sums[kSums] = {};
#pragma unroll 2
    for (int pack = first; pack < packs; pack += stride) {
      // Past the row's end dy is zero.
      add_to_sums(Packs::load(dy, pack, columns), Packs::load(x, pack, columns),
                  load_weights<kCentered, kAligned, kPack<T>>(norm.w, norm.plus, pack, columns),
                  scale, sums);
    }
    row_sums(sums, shared, turn);
#pragma unroll
    for (int i = 0; i < kSums; ++i) sums[i] /= static_cast<float>(columns);
    for (int pack = first; pack < packs; pack += stride) {
      Pack<kPack<T>> dx{};
      if (norm.residual) {
        dx = Packs::load(static_cast<const T*>(norm.residual) + begin, pack, columns);
      }
      add_gradient(Packs::load(dy, pack, columns), Packs::load(x, pack, columns),
                   load_weights<kCentered, kAligned, kPack<T>>(norm.w, norm.plus, pack, columns),
                   scale, sums, dx);
      Packs::store(dx, static_cast<T*>(norm.dx) + begin, pack, columns);
    }
  }
}

/// How one NormBackward is run.
struct Way {
  Way(const NormBackward& norm, int n)
      : aligned(rows_are_aligned(
            norm.columns, n, {norm.dy, norm.x, norm.w, norm.residual, norm.dx, norm.dw, norm.db})),
        shape(norm.rows, aligned ? norm.columns / n : divide_up<std::int64_t>(norm.columns, n)),
        in_registers(aligned && shape.fits),
        blocks(grid_blocks(shape.row_groups, kBlocks)) {}

  bool aligned;
  RowShape shape;
  bool in_registers;
  unsigned blocks;
};

ColumnTerms terms_of(const NormBackward& norm) {
  return {.dtype = norm.dtype,
          .rows = norm.rows,
          .columns = norm.columns,
          .dy = norm.dy,
          .x = norm.x,
          .mean = norm.mean,
          .rstd = norm.rstd};
}

template <typename T, bool kCentered>
void launch_rows(const NormBackward& norm, const Way& way, float* partial, cudaStream_t stream) {
  const RowShape& shape = way.shape;
  const dim3 blocks(way.blocks);
  if (!way.aligned) {
    launch(wide_norm_backward_kernel<T, kCentered, false>, blocks, shape.threads, 0, stream, norm);
    return;
  }
  if (!way.in_registers) {
    launch(wide_norm_backward_kernel<T, kCentered, true>, blocks, shape.threads, 0, stream, norm);
    return;
  }
  const std::size_t shared =
      shape.threads.y == 1
          ? 0
          : shape.threads.y * static_cast<std::size_t>(norm.columns) * sizeof(float);
  if (shape.packs_per_thread == 1) {
    launch(norm_backward_kernel<T, 1, kCentered>, blocks, shape.threads, shared, stream, norm,
           partial);
  } else {
    launch(norm_backward_kernel<T, 2, kCentered>, blocks, shape.threads, shared, stream, norm,
           partial);
  }
}

int pack_of(const NormBackward& norm) {
  return norm.dtype == DType::bf16 ? kPack<__nv_bfloat16> : kPack<float>;
}

}  // namespace

std::size_t norm_backward_scratch(const NormBackward& norm) {
  const Way way(norm, pack_of(norm));
  if (!way.in_registers) return column_sums_scratch(terms_of(norm));
  const std::size_t sums = norm.db ? 2 : 1;
  return way.blocks * sums * static_cast<std::size_t>(norm.columns) * sizeof(float);
}

void launch_norm_backward(const NormBackward& norm, void* scratch, cudaStream_t stream) {
  const Way way(norm, pack_of(norm));
  auto* const partial = static_cast<float*>(scratch);
  const ColumnOutputs outputs{.first = norm.dw, .second = norm.db};
  // The sums over columns come first, because dx may be written over dy.
  if (!way.in_registers) launch_column_sums(terms_of(norm), outputs, scratch, stream);
  with_act_type(norm.dtype, [&](auto type) {
    with_constant(norm.db != nullptr, [&](auto centered) {
      launch_rows<typename decltype(type)::type, centered()>(norm, way, partial, stream);
    });
  });
  if (way.in_registers) {
    launch_add_partials(partial, way.blocks, norm.columns, outputs, stream);
  }
}

}  // namespace troupe::tensor::cuda
