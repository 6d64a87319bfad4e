#include "tensor/cuda/kernels/dispatch.h"
#include "tensor/cuda/kernels/embedding_kernels.h"
#include "tensor/cuda/kernels/launch_shape.h"
#include "tensor/cuda/kernels/row_additions.h"
#include "tensor/cuda/kernels/row_packs.h"

namespace troupe::tensor::cuda {
namespace {

constexpr int kMostThreads = 256;    // of a block, which has one row at a time
constexpr std::int64_t kBlocks = 8;  // for each multiprocessor

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

/// Calls body(Type<T>(), aligned, threads) for rows of act elements and of the float32 table.
template <typename Body>
void with_rows(DType dtype, std::int64_t columns, const void* table, const void* x,
               const Body& body) {
  with_act_type(dtype, [&](auto type) {
    constexpr int N = kPack<typename decltype(type)::type>;
    with_constant(rows_are_aligned(columns, N, {table, x}), [&](auto aligned) {
      const std::int64_t packs = RowPacks<N, aligned()>::count(columns);
      body(type, aligned, dim3(std::min<unsigned>(kMostThreads, whole_warps(packs))));
    });
  });
}

}  // namespace

void launch_embedding(const Lookup& lookup, const float* table, void* x, cudaStream_t stream) {
  with_rows(lookup.dtype, lookup.columns, table, x, [&](auto type, auto aligned, dim3 threads) {
    using T = typename decltype(type)::type;
    launch(embedding_kernel<T, aligned()>, dim3(grid_blocks(lookup.tokens, kBlocks)), threads, 0,
           stream, lookup, table, static_cast<T*>(x));
  });
}

void launch_add_rows(const Lookup& lookup, const float* table, void* x, cudaStream_t stream) {
  with_rows(lookup.dtype, lookup.columns, table, x, [&](auto type, auto aligned, dim3 threads) {
    using T = typename decltype(type)::type;
    launch(add_rows_kernel<T, aligned()>, dim3(grid_blocks(lookup.tokens, kBlocks)), threads, 0,
           stream, lookup, table, static_cast<T*>(x));
  });
}

void launch_add_positions(const Positions& p, const float* table, void* x, cudaStream_t stream) {
  with_rows(p.dtype, p.columns, table, x, [&](auto type, auto aligned, dim3 threads) {
    using T = typename decltype(type)::type;
    launch(add_positions_kernel<T, aligned()>, dim3(grid_blocks(p.tokens, kBlocks)), threads, 0,
           stream, p, table, static_cast<T*>(x));
  });
}

void launch_positions_backward(const Positions& p, const void* dx, float* dtable,
                               cudaStream_t stream) {
  with_rows(p.dtype, p.columns, dtable, dx, [&](auto type, auto aligned, dim3 threads) {
    using T = typename decltype(type)::type;
    launch(positions_backward_kernel<T, aligned()>,
           dim3(grid_blocks(std::min(p.positions, p.tokens), kBlocks)), threads, 0, stream, p,
           static_cast<const T*>(dx), dtable);
  });
}

}  // namespace troupe::tensor::cuda
