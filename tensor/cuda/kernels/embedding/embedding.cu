#include "tensor/cuda/kernels/embedding/embedding_kernels.h"
#include "tensor/cuda/kernels/embedding/token_order.h"
#include "tensor/cuda/kernels/grid/dispatch.h"
#include "tensor/cuda/kernels/grid/launch_shape.h"
#include "tensor/cuda/kernels/grid/row_packs.h"

namespace troupe::tensor::cuda {
namespace {

constexpr int kMostThreads = 256;         // of a block, which has one row at a time
constexpr std::int64_t kBlocks = 8;       // for each multiprocessor
constexpr int kTileThreads = 64;          // of a block with some columns of a gradient
constexpr std::int64_t kTileBlocks = 16;  // for each multiprocessor

template <typename T, bool kAligned>
__global__ void __launch_bounds__(kMostThreads)
    embedding_kernel(Lookup lookup, const float* table, T* x) {
  using Packs = RowPacks<kPack<T>, kAligned>;
  const int columns = static_cast<int>(lookup.columns);
  const int packs = Packs::count(columns), stride = static_cast<int>(blockDim.x);
  for (std::int64_t t = blockIdx.x; t < lookup.tokens; t += gridDim.x) {
    const std::int64_t row = lookup.ids[t] - lookup.first;
    const bool known = row >= 0 && row < lookup.rows;
#pragma unroll 2
    for (int pack = static_cast<int>(threadIdx.x); pack < packs; pack += stride) {
      Pack<kPack<T>> v{};
      if (known) v = Packs::load(table + row * columns, pack, columns);
      Packs::store(v, x + t * columns, pack, columns);
    }
  }
}

/// x += a float32 row, by all threads of the block.
template <bool kAligned, typename T>
__device__ __forceinline__ void add_to_row(const float* row, int columns, T* x) {
  constexpr int N = kPack<T>;
  using Packs = RowPacks<N, kAligned>;
  const int packs = Packs::count(columns), stride = static_cast<int>(blockDim.x);
#pragma unroll 2
  for (int pack = static_cast<int>(threadIdx.x); pack < packs; pack += stride) {
    Pack<N> v = Packs::load(x, pack, columns);
    const Pack<N> added = Packs::load(row, pack, columns);
#pragma unroll
    for (int i = 0; i < N; ++i) v[i] += added[i];
    Packs::store(v, x, pack, columns);
  }
}

template <typename T, bool kAligned>
__global__ void __launch_bounds__(kMostThreads)
    add_positions_kernel(Positions p, const float* table, T* x) {
  const int columns = static_cast<int>(p.columns);
  for (std::int64_t t = blockIdx.x; t < p.tokens; t += gridDim.x)
    add_to_row<kAligned>(table + (p.first + t) % p.positions * columns, columns, x + t * columns);
}

template <typename T, bool kAligned>
__global__ void __launch_bounds__(kMostThreads)
    add_rows_kernel(Lookup lookup, const float* table, T* x) {
  const int columns = static_cast<int>(lookup.columns);
  for (std::int64_t t = blockIdx.x; t < lookup.tokens; t += gridDim.x) {
    const std::int64_t row = lookup.ids[t] - lookup.first;
    if (row >= 0 && row < lookup.rows)
      add_to_row<kAligned>(table + row * columns, columns, x + t * columns);
  }
}

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

/// A block has one position at a time, whose first token is t and whose next ones follow at
/// distances of `positions`.
template <typename T, bool kAligned>
__global__ void __launch_bounds__(kMostThreads)
    positions_backward_kernel(Positions p, const T* dx, float* dtable) {
  constexpr int N = kPack<T>;
  using Packs = RowPacks<N, kAligned>;
  const int columns = static_cast<int>(p.columns);
  const int packs = Packs::count(columns), stride = static_cast<int>(blockDim.x);
  for (std::int64_t t = blockIdx.x; t < p.positions && t < p.tokens; t += gridDim.x) {
    float* const row = dtable + (p.first + t) % p.positions * columns;
    const std::int64_t count = (p.tokens - t + p.positions - 1) / p.positions;
    const auto token = [&](std::int64_t i) { return t + i * p.positions; };
    for (int pack = static_cast<int>(threadIdx.x); pack < packs; pack += stride) {
      add_rows<kAligned, N>(dx, count, token, pack, columns, row);
    }
  }
}

/// Block (i, tile): the tile's columns of the runs i, i + n, ... of n. The columns of an id that
/// many tokens have are so divided among blocks.
template <typename T, bool kAligned>
__global__ void __launch_bounds__(kTileThreads)
    embedding_backward_kernel(Lookup lookup, TokenOrder order, const T* dx, float* dtable) {
  constexpr int N = kPack<T>;
  const int columns = static_cast<int>(lookup.columns);
  const int pack = static_cast<int>(blockIdx.y * kTileThreads + threadIdx.x);
  if (pack >= RowPacks<N, kAligned>::count(columns)) return;
  const std::uint32_t runs = *order.runs;
  for (std::uint32_t run = blockIdx.x; run < runs; run += gridDim.x) {
    const std::uint32_t begin = order.starts[run], end = order.starts[run + 1];
    const TokenOfRow* const tokens = order.sorted + begin;
    const auto token = [&](std::int64_t i) { return std::int64_t{tokens[i].token}; };
    add_rows<kAligned, N>(dx, end - begin, token, pack, columns,
                          dtable + std::int64_t{tokens[0].row} * columns);
  }
}

/// Calls body(Type<T>(), aligned, threads) for rows of act elements and of the float32 table.
template <typename Body>
void with_rows(DType dtype, std::int64_t columns, const void* table, const void* x,
               const Body& body) {
  with_act_type(dtype, [&]<typename T>(Type<T> type) {
    constexpr int N = kPack<T>;
    with_constant(rows_are_aligned(columns, N, {table, x}), [&](auto aligned) {
      const std::int64_t packs = RowPacks<N, aligned()>::count(columns);
      body(type, aligned, dim3(std::min<unsigned>(kMostThreads, whole_warps(packs))));
    });
  });
}

}  // namespace

void launch_embedding(const Lookup& lookup, const float* table, void* x, cudaStream_t stream) {
  with_rows(lookup.dtype, lookup.columns, table, x,
            [&]<typename T>(Type<T>, auto aligned, dim3 threads) {
              launch(embedding_kernel<T, aligned()>, dim3(grid_blocks(lookup.tokens, kBlocks)),
                     threads, 0, stream, lookup, table, static_cast<T*>(x));
            });
}

std::size_t embedding_backward_scratch(const Lookup& lookup) {
  return token_order_bytes(lookup.tokens);
}

void launch_embedding_backward(const Lookup& lookup, const void* dx, float* dtable, void* scratch,
                               cudaStream_t stream) {
  const TokenOrder order = token_order_in(scratch, lookup.tokens);
  launch_token_order(lookup, order, stream);
  const std::int64_t most_runs = std::min(lookup.tokens, lookup.rows);
  with_act_type(lookup.dtype, [&]<typename T>(Type<T>) {
    constexpr int N = kPack<T>;
    with_constant(rows_are_aligned(lookup.columns, N, {dx, dtable}), [&](auto aligned) {
      const std::int64_t packs = RowPacks<N, aligned()>::count(lookup.columns);
      const auto tiles = static_cast<unsigned>(divide_up<std::int64_t>(packs, kTileThreads));
      launch(embedding_backward_kernel<T, aligned()>,
             dim3(grid_blocks(most_runs, kTileBlocks), tiles), dim3(kTileThreads), 0, stream,
             lookup, order, static_cast<const T*>(dx), dtable);
    });
  });
}

void launch_add_rows(const Lookup& lookup, const float* table, void* x, cudaStream_t stream) {
  with_rows(lookup.dtype, lookup.columns, table, x,
            [&]<typename T>(Type<T>, auto aligned, dim3 threads) {
              launch(add_rows_kernel<T, aligned()>, dim3(grid_blocks(lookup.tokens, kBlocks)),
                     threads, 0, stream, lookup, table, static_cast<T*>(x));
            });
}

void launch_add_positions(const Positions& p, const float* table, void* x, cudaStream_t stream) {
  with_rows(p.dtype, p.columns, table, x, [&]<typename T>(Type<T>, auto aligned, dim3 threads) {
    launch(add_positions_kernel<T, aligned()>, dim3(grid_blocks(p.tokens, kBlocks)), threads, 0,
           stream, p, table, static_cast<T*>(x));
  });
}

void launch_positions_backward(const Positions& p, const void* dx, float* dtable,
                               cudaStream_t stream) {
  with_rows(p.dtype, p.columns, dtable, dx, [&]<typename T>(Type<T>, auto aligned, dim3 threads) {
    launch(positions_backward_kernel<T, aligned()>,
           dim3(grid_blocks(std::min(p.positions, p.tokens), kBlocks)), threads, 0, stream, p,
           static_cast<const T*>(dx), dtable);
  });
}

}  // namespace troupe::tensor::cuda
