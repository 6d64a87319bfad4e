#include "tensor/cuda/kernels/dispatch.h"
#include "tensor/cuda/kernels/embedding_kernels.h"
#include "tensor/cuda/kernels/launch_shape.h"
#include "tensor/cuda/kernels/row_additions.h"
#include "tensor/cuda/kernels/row_packs.h"
#include "tensor/cuda/kernels/token_order.h"

namespace troupe::tensor::cuda {
namespace {

constexpr int kThreads = 64;          // of a block, each with a pack of columns
constexpr std::int64_t kBlocks = 16;  // for each multiprocessor

/// Block (i, tile): the tile's columns of the runs i, i + n, ... of n. The columns of an id that
/// many tokens have are so divided among blocks.
template <typename T, bool kAligned>
__global__ void __launch_bounds__(kThreads)
    embedding_backward_kernel(Lookup lookup, TokenOrder order, const T* dx, float* dtable) {
  constexpr int N = kPack<T>;
  const int columns = static_cast<int>(lookup.columns);
  const int pack = static_cast<int>(blockIdx.y * kThreads + threadIdx.x);
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

}  // namespace

std::size_t embedding_backward_scratch(const Lookup& lookup) {
  return token_order_bytes(lookup.tokens);
}

void launch_embedding_backward(const Lookup& lookup, const void* dx, float* dtable, void* scratch,
                               cudaStream_t stream) {
  const TokenOrder order = token_order_in(scratch, lookup.tokens);
  launch_token_order(lookup, order, stream);
  const std::int64_t most_runs = std::min(lookup.tokens, lookup.rows);
  with_act_type(lookup.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    constexpr int N = kPack<T>;
    with_constant(rows_are_aligned(lookup.columns, N, {dx, dtable}), [&](auto aligned) {
      const std::int64_t packs = RowPacks<N, aligned()>::count(lookup.columns);
      const auto tiles = static_cast<unsigned>(divide_up<std::int64_t>(packs, kThreads));
      launch(embedding_backward_kernel<T, aligned()>, dim3(grid_blocks(most_runs, kBlocks), tiles),
             dim3(kThreads), 0, stream, lookup, order, static_cast<const T*>(dx), dtable);
    });
  });
}

}  // namespace troupe::tensor::cuda
