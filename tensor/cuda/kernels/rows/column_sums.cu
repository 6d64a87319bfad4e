#include "tensor/cuda/kernels/grid/dispatch.h"
#include "tensor/cuda/kernels/grid/launch_shape.h"
#include "tensor/cuda/kernels/grid/row_packs.h"
#include "tensor/cuda/kernels/rows/reduction_kernels.h"

namespace troupe::tensor::cuda {
namespace {

constexpr int kWarps = 8;                  // of a block, each with rows of its own
constexpr int kRowsAtOnce = 4;             // of a warp, on their way from memory
constexpr std::int64_t kBlocks = 4;        // for each multiprocessor
constexpr std::int64_t kFewestRows = 64;   // of a block
constexpr std::int64_t kPartsOfAWarp = 8;  // that launch_add_partials gives a warp, if there are
constexpr std::int64_t kMostPartWarps = 32;

enum class Terms { plain, scaled, centered };

/// Adds a row's pack to the sums of a thread.
template <Terms kTerms, int N>
__device__ __forceinline__ void add_terms(const Pack<N>& dy, const Pack<N>& x, float mean,
                                          float rstd, Pack<N>& first, Pack<N>& second) {
#pragma unroll
  for (int i = 0; i < N; ++i) {
    if constexpr (kTerms == Terms::plain) {
      first[i] += dy[i];
    } else {
      first[i] += dy[i] * ((x[i] - mean) * rstd);
      if constexpr (kTerms == Terms::centered) second[i] += dy[i];
    }
  }
}

/// Adds what the block's warps have of its columns, first warp first, and writes it to `partial`.
template <bool kAligned, int N>
__device__ __forceinline__ void add_warps(const Pack<N>& sums, int pack, int columns,
                                          float* partial) {
  float* const shared = dynamic_shared<float>();  // [kWarps, N, 32]
#pragma unroll
  for (int i = 0; i < N; ++i) shared[(threadIdx.y * N + i) * 32 + threadIdx.x] = sums[i];
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.y); i < N; i += kWarps) {
    float sum = shared[i * 32 + threadIdx.x];
    for (int y = 1; y < kWarps; ++y) sum += shared[(y * N + i) * 32 + threadIdx.x];
    const int c = RowPacks<N, kAligned>::column(pack, i);
    if (c < columns) partial[c] = sum;
  }
  __syncthreads();
}

/// Block (tile, part): 32 packs of columns, and the part's share of the rows, which go round the
/// block's warps.
template <typename T, Terms kTerms, bool kAligned>
__global__ void __launch_bounds__(32 * kWarps)
    column_sums_kernel(ColumnTerms terms, float* partial) {
  constexpr int N = kPack<T>;
  using Packs = RowPacks<N, kAligned>;
  const int columns = static_cast<int>(terms.columns);
  const int pack = static_cast<int>(blockIdx.x * 32 + threadIdx.x);
  const bool inside = pack < Packs::count(columns);
  const std::int64_t begin = terms.rows * blockIdx.y / gridDim.y;
  const std::int64_t end = terms.rows * (blockIdx.y + 1) / gridDim.y;
  const T *const dy = static_cast<const T*>(terms.dy), *const x = static_cast<const T*>(terms.x);
  Pack<N> first{}, second{};
  for (std::int64_t row = begin + threadIdx.y; row < end; row += kWarps * kRowsAtOnce) {
    RawPack<T, N> dy_rows[kRowsAtOnce] = {}, x_rows[kRowsAtOnce] = {};
    float mean[kRowsAtOnce] = {}, rstd[kRowsAtOnce] = {};
#pragma unroll
    for (int r = 0; r < kRowsAtOnce; ++r) {
      const std::int64_t t = row + r * kWarps;
      if (t >= end || !inside) continue;
      dy_rows[r] = Packs::load_raw(dy + t * columns, pack, columns);
      if constexpr (kTerms != Terms::plain) {
        x_rows[r] = Packs::load_raw(x + t * columns, pack, columns);
        rstd[r] = terms.rstd[t];
      }
      if constexpr (kTerms == Terms::centered) mean[r] = terms.mean[t];
    }
#pragma unroll
    for (int r = 0; r < kRowsAtOnce; ++r) {
      add_terms<kTerms>(widen(dy_rows[r]), widen(x_rows[r]), mean[r], rstd[r], first, second);
    }
  }
  constexpr int kSums = kTerms == Terms::centered ? 2 : 1;
  float* const own = partial + std::int64_t{blockIdx.y} * kSums * columns;
  add_warps<kAligned>(first, pack, columns, own);
  if constexpr (kTerms == Terms::centered)
    add_warps<kAligned>(second, pack, columns, own + columns);
}

/// Block i: columns 32 i and on. Warp y of n sums the parts y, y + n, ..., and then the warps'
/// sums are added, first warp first.
__global__ void __launch_bounds__(32 * kMostPartWarps)
    add_partials_kernel(const float* partial, std::int64_t parts, std::int64_t columns,
                        ColumnOutputs outputs) {
  SHARED(float, sums, 32 * kMostPartWarps);
  const std::int64_t all = outputs.second ? 2 * columns : columns;
  const std::int64_t c = std::int64_t{blockIdx.x} * 32 + threadIdx.x;
  float sum = 0;
  if (c < all) {
#pragma unroll 8
    for (std::int64_t part = threadIdx.y; part < parts; part += blockDim.y)
      sum += partial[part * all + c];
  }
  sums[threadIdx.y * 32 + threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || c >= all) return;
  for (unsigned y = 1; y < blockDim.y; ++y) sum += sums[y * 32 + threadIdx.x];
  float* const out = c < columns ? outputs.first + c : outputs.second + (c - columns);
  *out = outputs.add ? *out + sum : sum;
}

/// The blocks of column_sums_kernel: tiles of columns, and parts of the rows.
template <typename T>
dim3 blocks_of(const ColumnTerms& terms) {
  const std::int64_t tiles = divide_up<std::int64_t>(terms.columns, 32 * kPack<T>);
  const std::int64_t parts =
      std::min(divide_up(terms.rows, kFewestRows), divide_up(kBlocks * kMultiprocessors, tiles));
  return {static_cast<unsigned>(tiles), static_cast<unsigned>(std::max<std::int64_t>(1, parts))};
}

template <typename T, Terms kTerms>
void launch_terms(const ColumnTerms& terms, float* partial, cudaStream_t stream) {
  constexpr int N = kPack<T>;
  with_constant(rows_are_aligned(terms.columns, N, {terms.dy, terms.x}), [&](auto aligned) {
    launch(column_sums_kernel<T, kTerms, aligned()>, blocks_of<T>(terms), dim3(32, kWarps),
           kWarps * N * 32 * sizeof(float), stream, terms, partial);
  });
}

}  // namespace

std::size_t column_sums_scratch(const ColumnTerms& terms) {
  const unsigned parts =
      terms.dtype == DType::bf16 ? blocks_of<__nv_bfloat16>(terms).y : blocks_of<float>(terms).y;
  return parts * (terms.mean ? 2 : 1) * static_cast<std::size_t>(terms.columns) * sizeof(float);
}

void launch_column_sums(const ColumnTerms& terms, const ColumnOutputs& outputs, void* scratch,
                        cudaStream_t stream) {
  auto* const partial = static_cast<float*>(scratch);
  with_act_type(terms.dtype, [&]<typename T>(Type<T>) {
    if (!terms.x) {
      launch_terms<T, Terms::plain>(terms, partial, stream);
    } else if (!terms.mean) {
      launch_terms<T, Terms::scaled>(terms, partial, stream);
    } else {
      launch_terms<T, Terms::centered>(terms, partial, stream);
    }
    launch_add_partials(partial, blocks_of<T>(terms).y, terms.columns, outputs, stream);
  });
}

void launch_add_partials(const float* partial, std::int64_t parts, std::int64_t columns,
                         const ColumnOutputs& outputs, cudaStream_t stream) {
  const std::int64_t all = outputs.second ? 2 * columns : columns;
  const std::int64_t warps =
      std::clamp<std::int64_t>(divide_up(parts, kPartsOfAWarp), 1, kMostPartWarps);
  launch(add_partials_kernel, dim3(static_cast<unsigned>(divide_up<std::int64_t>(all, 32))),
         dim3(32, static_cast<unsigned>(warps)), 0, stream, partial, parts, columns, outputs);
}

}  // namespace troupe::tensor::cuda
