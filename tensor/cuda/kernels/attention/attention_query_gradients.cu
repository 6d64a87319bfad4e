#include "tensor/cuda/kernels/attention/attention_backward.h"
#include "tensor/cuda/kernels/attention/attention_widths.h"

namespace troupe::tensor::cuda {
namespace {

/// Keys of a tile that a block goes through: fewer where rows are long, for the sake of shared
/// memory and registers.
template <typename T, int width>
using Large = BackwardMemory<T, width, Tiling<64, (width * sizeof(T) > 256) ? 32 : 64>>;

/// Gradients of a tile of queries.
template <typename T, int width, bool limited, typename Memory>
__device__ __forceinline__ void add_query_gradients(const AttentionArguments& x,
                                                    const AlignedRows& aligned) {
  constexpr int kRows = Memory::Tiles::rows, kKeys = Memory::Tiles::columns, n = kKeys / 8;
  constexpr int kThreads = Memory::Tiles::threads;
  const Memory memory;
  const Lane lane;
  const auto [place, first] = block_place<kRows>(x, x.heads, true);
  if (first >= place.length) return;
  const HeadPlace shared = place.with_head(place.head / (x.heads / x.kv_heads));
  const int seen = x.causal && first + kRows < place.length ? first + kRows : place.length;
  load_tile<kRows, width, kThreads>(query_rows<T>(x, place, first), memory.rows);
  load_tile<kRows, width, kThreads>(
      output_rows(x, static_cast<const T*>(x.dout), place, first, aligned.out), memory.other_rows);
  const T* queries = memory.rows + lane.warp_row * memory.kStride;
  const T* dout = memory.other_rows + lane.warp_row * memory.kStride;
  float* kept = memory.kept + lane.warp_row * kKeptStride<kKeys>;
  float lse[2], delta[2];
#pragma unroll
  for (int row = 0; row < 2; ++row) {
    const int query = first + lane.warp_row + lane.row(2 * row);
    const bool exists = query < place.length;
    lse[row] = exists ? finite_lse(x.lse[row_of(x, place) + query]) : 0.0f;
    delta[row] = exists ? x.delta[row_of(x, place) + query] : 0.0f;
  }
  const auto lse_of = [&](int, int j) { return lse[j / 2]; };
  const auto delta_of = [&](int, int j) { return delta[j / 2]; };

  float dq[width / 8][4];
  clear(dq);
#pragma unroll 1
  for (int key = first_tile<limited, kKeys>(x, first); key < seen; key += kKeys) {
    __syncthreads();
    load_tile<kKeys, width, kThreads>(key_rows<T>(x, shared, key), memory.tile);
    load_tile<kKeys, width, kThreads>(value_rows<T>(x, shared, key), memory.other_tile);
    __syncthreads();
    const ScoreTile<false, kRows> tile{place, first, key};
    const std::uint32_t bits = x.dropout.threshold ? kept_probabilities<n>(x, tile) : 0;
    float p[n][4], ds[n][4];
    compute_probabilities<T, width, limited>(x, tile, queries, memory.tile, lse_of, p);
    compute_score_gradients<T, width, limited>(x, bits, dout, memory.other_tile, lse_of, delta_of,
                                               p, ds);
    multiply_kept(ds, memory.tile, kept, dq);
  }
  write_rows<width>(dq, reinterpret_cast<float*>(memory.rows), rotation_from(x, place, first),
                    gradient_rows<T>(x, place, place.head, first, aligned.rotated));
}

/// The number of blocks on a multiprocessor is the one for which no register spills.
template <typename T, int width, bool limited, typename Memory>
__global__ void __launch_bounds__(Memory::Tiles::threads,
                                  width == 128 && sizeof(T) == 2 && !limited ? 3 : 2)
    attention_query_gradients_kernel(const AttentionArguments x, const AlignedRows aligned) {
  if constexpr (is_of_use<Memory, Large<T, width>>()) {
    add_query_gradients<T, width, limited, Memory>(x, aligned);
  } else {
    __trap();
  }
}

}  // namespace

void launch_attention_query_gradients(DType dtype, const AttentionArguments& x,
                                      cudaStream_t stream) {
  with_width(dtype, x.head_dim, [&]<typename T, int width>(HeadWidth<T, width>) {
    with_memory<Large<T, width>, SmallBackward<T, width>>(
        stream, [&]<typename Memory>(Type<Memory>) {
          with_limits<T>(x.limited(), [&](auto limited) {
            launch(attention_query_gradients_kernel<T, width, limited(), Memory>,
                   blocks_of<Memory::Tiles::rows>(x, x.heads), Memory::Tiles::threads,
                   Memory::kBytes, stream, x, aligned_rows<T>(x));
          });
        });
  });
}

}  // namespace troupe::tensor::cuda
