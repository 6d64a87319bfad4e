#include "tensor/cuda/kernels/attention/attention_backward.h"
#include "tensor/cuda/kernels/attention/attention_widths.h"

namespace troupe::tensor::cuda {
namespace {

/// Keys of a tile that a block goes through: fewer where rows are long, for the sake of shared
/// memory and registers.
template <typename T, int width>
inline constexpr int kKeyTile = width * sizeof(T) > 256 ? 32 : 64;

/// Gradients of a tile of 64 queries. The number of blocks on a multiprocessor is the one for which
/// no register spills.
template <typename T, int width>
__global__ void __launch_bounds__(kAttentionThreads, width == 128 && sizeof(T) == 2 ? 3 : 2)
    attention_query_gradients_kernel(const AttentionArguments x, const AlignedRows aligned) {
  constexpr int kKeys = kKeyTile<T, width>, n = kKeys / 8;
  const BackwardMemory<T, width, kKeys> memory;
  const Lane lane;
  const auto [place, first] = block_place(x, x.heads, true);
  if (first >= place.length) return;
  const HeadPlace shared = place.with_head(place.head / (x.heads / x.kv_heads));
  const int seen = x.causal && first + kTileRows < place.length ? first + kTileRows : place.length;
  load_tile<kTileRows, width>(query_rows<T>(x, place, first), memory.rows);
  load_tile<kTileRows, width>(
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
  for (int key = 0; key < seen; key += kKeys) {
    __syncthreads();
    load_tile<kKeys, width>(key_rows<T>(x, shared, key), memory.tile);
    load_tile<kKeys, width>(value_rows<T>(x, shared, key), memory.other_tile);
    __syncthreads();
    const ScoreTile<false> tile{place, first, key};
    const std::uint32_t bits = x.dropout.threshold ? kept_probabilities<false, n>(x, tile) : 0;
    float p[n][4], ds[n][4];
    compute_probabilities<T, width>(x, tile, queries, memory.tile, lse_of, p);
    compute_score_gradients<T, width>(x, bits, dout, memory.other_tile, delta_of, p, ds);
    multiply_kept(ds, memory.tile, kept, dq);
  }
  write_rows<width>(dq, reinterpret_cast<float*>(memory.rows), rotation_from(x, place, first),
                    gradient_rows<T>(x, place, place.head, first, aligned.rotated));
}

}  // namespace

void launch_attention_query_gradients(DType dtype, const AttentionArguments& x,
                                      cudaStream_t stream) {
  with_width(dtype, x.head_dim, [&]<typename T, int width>(HeadWidth<T, width>) {
    constexpr std::size_t kBytes = BackwardMemory<T, width, kKeyTile<T, width>>::kBytes;
    launch(attention_query_gradients_kernel<T, width>, blocks_of(x, x.heads), kAttentionThreads,
           kBytes, stream, x, aligned_rows<T>(x));
  });
}

}  // namespace troupe::tensor::cuda
