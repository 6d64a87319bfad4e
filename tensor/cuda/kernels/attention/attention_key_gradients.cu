#include "tensor/cuda/kernels/attention/attention_backward.h"
#include "tensor/cuda/kernels/attention/attention_widths.h"

namespace troupe::tensor::cuda {
namespace {

enum class Gradient { keys, values, keys_and_values };

/// Queries of a tile that a block goes through: fewer where rows are long, for the sake of shared
/// memory and registers.
template <typename T, int width>
using Large = BackwardMemory<T, width,
                             Tiling<64, (width * sizeof(T) > 512)   ? 16
                                        : (width * sizeof(T) > 128) ? 32
                                                                    : 64>>;

/// Loads a tile of queries and of dout, and what a backward needs of each query besides.
template <int queries, int width, int threads, typename T, typename Array>
__device__ __forceinline__ void load_queries(const AttentionArguments& x, HeadPlace place,
                                             int first, bool aligned, T* tile, T* dout_tile,
                                             Array& lse, Array& delta) {
  load_tile<queries, width, threads>(query_rows<T>(x, place, first), tile);
  load_tile<queries, width, threads>(
      output_rows(x, static_cast<const T*>(x.dout), place, first, aligned), dout_tile);
  const int i = static_cast<int>(threadIdx.x);
  if (i >= queries) return;
  const bool exists = first + i < place.length;
  lse[i] = exists ? finite_lse(x.lse[row_of(x, place) + first + i]) : 0.0f;
  delta[i] = exists ? x.delta[row_of(x, place) + first + i] : 0.0f;
}

/// The gradients that a block adds up: of its keys or their values, or of both.
template <typename T, int width, Gradient gradient, int n>
struct KeyGradients {
  static constexpr bool kKeys = gradient != Gradient::values;
  static constexpr bool kValues = gradient != Gradient::keys;

  float dk[kKeys ? width / 8 : 1][4], dv[kValues ? width / 8 : 1][4];

  __device__ __forceinline__ KeyGradients() {
    clear(dk);
    clear(dv);
  }

  __device__ __forceinline__ void add_values(const AttentionArguments& x, std::uint32_t kept_bits,
                                             const float (&p)[n][4], const T* dout, float* kept) {
    float dropped[n][4];
#pragma unroll
    for (int i = 0; i < n; ++i) {
#pragma unroll
      for (int j = 0; j < 4; ++j) dropped[i][j] = p[i][j];
    }
    if (x.dropout.threshold) drop(kept_bits, x.dropout.scale, dropped);
    multiply_kept(dropped, dout, kept, dv);
  }

  __device__ __forceinline__ void write(const AttentionArguments& x, HeadPlace shared, int first,
                                        const AlignedRows& aligned, float* staging) const {
    const int key_head = x.heads + shared.head, value_head = key_head + x.kv_heads;
    if constexpr (kKeys) {
      write_rows<width>(dk, staging, rotation_from(x, shared, first),
                        gradient_rows<T>(x, shared, key_head, first, aligned.rotated));
    }
    if constexpr (kValues) {
      write_rows<width>(dv, staging, {},
                        gradient_rows<T>(x, shared, value_head, first, aligned.values));
    }
  }
};

/// Where the queries end that see some of the tile's keys, from position `first` on.
template <bool limited, int keys>
__device__ __forceinline__ int queries_end(const AttentionArguments& x, int length, int first) {
  if constexpr (limited) {
    if (x.window > 0 && length - first - keys >= x.window) return first + keys + x.window - 1;
  }
  return length;
}

/// Gradients of a tile of keys: rows of its scores are keys, columns queries.
template <typename T, int width, Gradient gradient, bool limited, typename Memory>
__device__ __forceinline__ void add_key_gradients(const AttentionArguments& x,
                                                  const AlignedRows& aligned) {
  constexpr int kRows = Memory::Tiles::rows, kQueries = Memory::Tiles::columns, n = kQueries / 8;
  constexpr int kThreads = Memory::Tiles::threads;
  const Memory memory;
  SHARED(float, lse, kQueries);
  SHARED(float, delta, kQueries);
  const Lane lane;
  const auto [shared, first] =
      block_place<kRows>(x, x.kv_heads, false);  // the first keys are seen most
  if (first >= shared.length) return;
  const int group = x.heads / x.kv_heads;
  const int end = queries_end<limited, kRows>(x, shared.length, first);
  load_tile<kRows, width, kThreads>(key_rows<T>(x, shared, first), memory.rows);
  if (gradient != Gradient::values) {
    load_tile<kRows, width, kThreads>(value_rows<T>(x, shared, first), memory.other_rows);
  }
  const T* keys = memory.rows + lane.warp_row * memory.kStride;
  const T* values = memory.other_rows + lane.warp_row * memory.kStride;
  float* kept = memory.kept + lane.warp_row * kKeptStride<kQueries>;

  KeyGradients<T, width, gradient, n> gradients;
#pragma unroll 1
  for (int head = shared.head * group; head < (shared.head + 1) * group; ++head) {
    const HeadPlace place = shared.with_head(head);
#pragma unroll 1
    for (int query = x.causal ? first : 0; query < end; query += kQueries) {
      __syncthreads();
      load_queries<kQueries, width, kThreads>(x, place, query, aligned.out, memory.tile,
                                              memory.other_tile, lse, delta);
      __syncthreads();
      const ScoreTile<true, kRows> tile{place, first, query};
      const std::uint32_t bits = x.dropout.threshold ? kept_probabilities<n>(x, tile) : 0;
      const auto lse_of = [&](int i, int j) -> float { return lse[lane.column(i, j)]; };
      const auto delta_of = [&](int i, int j) -> float { return delta[lane.column(i, j)]; };
      float p[n][4], ds[n][4];
      compute_probabilities<T, width, limited>(x, tile, keys, memory.tile, lse_of, p);
      if constexpr (gradient != Gradient::keys) {
        gradients.add_values(x, bits, p, memory.other_tile, kept);
      }
      if constexpr (gradient != Gradient::values) {
        compute_score_gradients<T, width, limited>(x, bits, values, memory.other_tile, lse_of,
                                                   delta_of, p, ds);
        multiply_kept(ds, memory.tile, kept, gradients.dk);
      }
    }
  }
  gradients.write(x, shared, first, aligned, reinterpret_cast<float*>(memory.rows));
}

template <typename T, int width, Gradient gradient, bool limited, typename Memory>
__global__ void __launch_bounds__(Memory::Tiles::threads, 2)
    attention_key_gradients_kernel(const AttentionArguments x, const AlignedRows aligned) {
  if constexpr (is_of_use<Memory, Large<T, width>>()) {
    add_key_gradients<T, width, gradient, limited, Memory>(x, aligned);
  } else {
    __trap();
  }
}

template <typename T, int width, Gradient gradient>
void launch_key_gradients(const AttentionArguments& x, cudaStream_t stream) {
  with_memory<Large<T, width>, SmallBackward<T, width>>(stream, [&]<typename Memory>(Type<Memory>) {
    with_limits<T>(x.limited(), [&](auto limited) {
      launch(attention_key_gradients_kernel<T, width, gradient, limited(), Memory>,
             blocks_of<Memory::Tiles::rows>(x, x.kv_heads), Memory::Tiles::threads, Memory::kBytes,
             stream, x, aligned_rows<T>(x));
    });
  });
}

}  // namespace

void launch_attention_key_gradients(DType dtype, const AttentionArguments& x, cudaStream_t stream) {
  with_width(dtype, x.head_dim, [&]<typename T, int width>(HeadWidth<T, width>) {
    if constexpr (width > 128) {  // registers hold the gradient of one of the two
      launch_key_gradients<T, width, Gradient::keys>(x, stream);
      launch_key_gradients<T, width, Gradient::values>(x, stream);
    } else {
      launch_key_gradients<T, width, Gradient::keys_and_values>(x, stream);
    }
  });
}

}  // namespace troupe::tensor::cuda
