#include "tensor/cuda/kernels/attention_scores.h"
#include "tensor/cuda/kernels/attention_widths.h"
#include "tensor/cuda/kernels/elementwise.h"

// FlashAttention-2 (arXiv 2307.08691), algorithm 2, as two kernels, so that nothing is added to
// memory that other blocks add to: one goes through queries and computes gradients of keys and
// values, the other goes through keys and computes gradients of queries. Both compute the
// probabilities again from lse. With p' the probabilities after dropout, whose gradient is dp':
// dv = p'^T dout, ds = p (dp - delta), dk = ds^T q, dq = ds k.

namespace troupe::tensor::cuda {
namespace {

enum class Gradient { keys, values, keys_and_values };

/// Rows of a tile that a block goes through: fewer where rows are long, for the sake of shared
/// memory and registers, of which gradients of keys and values need more.
template <typename T, int width>
inline constexpr int kQueryTile = width * sizeof(T) > 128 ? 32 : 64;
template <typename T, int width>
inline constexpr int kKeyTile = width * sizeof(T) > 256 ? 32 : 64;

/// Shared memory of a block: it keeps 64 rows of two tensors and goes through tiles of two others.
template <typename T, int width, int columns>
struct BackwardMemory {
  static constexpr int kStride = kTileStride<T, width>;
  static constexpr int kElements = 2 * (kTileRows + columns) * kStride;
  static constexpr int kKept = sizeof(T) == sizeof(float) ? kTileRows * kKeptStride<columns> : 0;
  static constexpr std::size_t kTiles = kElements * sizeof(T) + kKept * sizeof(float);
  static constexpr std::size_t kBytes =
      kTiles > kStagingBytes<width> ? kTiles : kStagingBytes<width>;

  T* rows = dynamic_shared<T>();
  T* other_rows = rows + kTileRows * kStride;
  T* tile = other_rows + kTileRows * kStride;
  T* other_tile = tile + columns * kStride;
  float* kept = reinterpret_cast<float*>(rows + kElements);
};

__device__ __forceinline__ float finite_lse(float lse) {
  return lse == minus_infinity() ? 0.0f : lse;  // e^(-inf - 0) is 0, not NaN
}

template <typename T>
__device__ __forceinline__ Rows<T> output_rows(const AttentionArguments& x, T* data,
                                               HeadPlace place, int first, bool aligned) {
  return token_rows(x, data, place.batch, first, std::int64_t{x.heads} * x.head_dim,
                    std::int64_t{place.head} * x.head_dim, aligned);
}

/// Rows of a head of dqkv, whose columns are those of H + 2K heads.
template <typename T>
__device__ __forceinline__ Rows<T> gradient_rows(const AttentionArguments& x, int batch, int head,
                                                 int first, bool aligned) {
  return token_rows(x, static_cast<T*>(x.dqkv), batch, first,
                    std::int64_t{x.heads + 2 * x.kv_heads} * x.head_dim,
                    std::int64_t{head} * x.head_dim, aligned);
}

__device__ __forceinline__ RowRotation rotation_from(const AttentionArguments& x, int first) {
  if (!x.cos) return {};
  const std::int64_t angle = std::int64_t{first} * (x.head_dim / 2);
  return {x.cos + angle, x.sin + angle};
}

struct AlignedRows {
  bool out = false;      // dout and out
  bool rotated = false;  // dqkv's halves of heads, or heads if nothing is rotated
  bool values = false;   // dqkv's heads
};

/// p = e^(score - lse) of the products of the warp's rows with the tile's columns. lse(i, j) is
/// that of the query of p[i][j].
template <typename T, int width, bool transposed, int n, typename Lse>
__device__ __forceinline__ void compute_probabilities(const AttentionArguments& x,
                                                      const ScoreTile<transposed>& tile,
                                                      const T* rows, const T* columns,
                                                      const Lse& lse, float (&p)[n][4]) {
  clear(p);
  multiply_rows<width>(rows, columns, p);
  finish_scores(x, tile, p);
#pragma unroll
  for (int i = 0; i < n; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) p[i][j] = exponential<T>(p[i][j] - lse(i, j));
  }
}

/// ds = p (dp - delta) scale, where dp' is the product of the warp's rows with the tile's columns,
/// one of dout and the other of values. delta(i, j) is that of the query of ds[i][j].
template <typename T, int width, int n, typename Delta>
__device__ __forceinline__ void compute_score_gradients(const AttentionArguments& x,
                                                        std::uint32_t kept_bits, const T* rows,
                                                        const T* columns, const Delta& delta,
                                                        const float (&p)[n][4], float (&ds)[n][4]) {
  clear(ds);
  multiply_rows<width>(rows, columns, ds);
  if (x.dropout.threshold) drop(kept_bits, x.dropout.scale, ds);
#pragma unroll
  for (int i = 0; i < n; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) ds[i][j] = p[i][j] * x.scale * (ds[i][j] - delta(i, j));
  }
}

/// Loads a tile of queries and of dout, and what a backward needs of each query besides.
template <int queries, int width, typename T, typename Array>
__device__ __forceinline__ void load_queries(const AttentionArguments& x, HeadPlace place,
                                             int first, bool aligned, T* tile, T* dout_tile,
                                             Array& lse, Array& delta) {
  load_tile<queries, width>(query_rows<T>(x, place, first), tile);
  load_tile<queries, width>(output_rows(x, static_cast<const T*>(x.dout), place, first, aligned),
                            dout_tile);
  const int i = static_cast<int>(threadIdx.x);
  if (i >= queries) return;
  const bool exists = first + i < x.seq_len;
  lse[i] = exists ? finite_lse(x.lse[row_of(x, place) + first + i]) : 0.0f;
  delta[i] = exists ? x.delta[row_of(x, place) + first + i] : 0.0f;
}

/// The gradients that a block adds up: columns of 64 keys or their values, or of both.
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
      write_rows<width>(dk, staging, rotation_from(x, first),
                        gradient_rows<T>(x, shared.batch, key_head, first, aligned.rotated));
    }
    if constexpr (kValues) {
      write_rows<width>(dv, staging, {},
                        gradient_rows<T>(x, shared.batch, value_head, first, aligned.values));
    }
  }
};

/// Gradients of a tile of 64 keys: rows of its scores are keys, columns queries.
template <typename T, int width, Gradient gradient>
__global__ void __launch_bounds__(kAttentionThreads, 2)
    attention_key_gradients_kernel(const AttentionArguments x, const AlignedRows aligned) {
  constexpr int kQueries = kQueryTile<T, width>, n = kQueries / 8;
  const BackwardMemory<T, width, kQueries> memory;
  SHARED(float, lse, kQueries);
  SHARED(float, delta, kQueries);
  const Lane lane;
  const int heads = x.batch * x.kv_heads, block = static_cast<int>(blockIdx.x);
  const HeadPlace shared{block % heads / x.kv_heads, block % heads % x.kv_heads};
  const int first = block / heads * kTileRows;  // the first keys are seen by most queries
  const int group = x.heads / x.kv_heads;
  load_tile<kTileRows, width>(key_rows<T>(x, shared, first), memory.rows);
  if (gradient != Gradient::values) {
    load_tile<kTileRows, width>(value_rows<T>(x, shared, first), memory.other_rows);
  }
  const T* keys = memory.rows + lane.warp_row * memory.kStride;
  const T* values = memory.other_rows + lane.warp_row * memory.kStride;
  float* kept = memory.kept + lane.warp_row * kKeptStride<kQueries>;

  KeyGradients<T, width, gradient, n> gradients;
#pragma unroll 1
  for (int head = shared.head * group; head < (shared.head + 1) * group; ++head) {
    const HeadPlace place{shared.batch, head};
#pragma unroll 1
    for (int query = x.causal ? first : 0; query < x.seq_len; query += kQueries) {
      __syncthreads();
      load_queries<kQueries, width>(x, place, query, aligned.out, memory.tile, memory.other_tile,
                                    lse, delta);
      __syncthreads();
      const ScoreTile<true> tile{place, first, query};
      const std::uint32_t bits = x.dropout.threshold ? kept_probabilities<true, n>(x, tile) : 0;
      const auto lse_of = [&](int i, int j) -> float { return lse[lane.column(i, j)]; };
      const auto delta_of = [&](int i, int j) -> float { return delta[lane.column(i, j)]; };
      float p[n][4], ds[n][4];
      compute_probabilities<T, width>(x, tile, keys, memory.tile, lse_of, p);
      if constexpr (gradient != Gradient::keys) {
        gradients.add_values(x, bits, p, memory.other_tile, kept);
      }
      if constexpr (gradient != Gradient::values) {
        compute_score_gradients<T, width>(x, bits, values, memory.other_tile, delta_of, p, ds);
        multiply_kept(ds, memory.tile, kept, gradients.dk);
      }
    }
  }
  gradients.write(x, shared, first, aligned, reinterpret_cast<float*>(memory.rows));
}

/// Gradients of a tile of 64 queries. The number of blocks on a multiprocessor is the one for which
/// no register spills.
template <typename T, int width>
__global__ void __launch_bounds__(kAttentionThreads, width == 128 ? 3 : 2)
    attention_query_gradients_kernel(const AttentionArguments x, const AlignedRows aligned) {
  constexpr int kKeys = kKeyTile<T, width>, n = kKeys / 8;
  const BackwardMemory<T, width, kKeys> memory;
  const Lane lane;
  const int heads = x.batch * x.heads, block = static_cast<int>(blockIdx.x);
  const HeadPlace place{block % heads / x.heads, block % heads % x.heads};
  const HeadPlace shared{place.batch, place.head / (x.heads / x.kv_heads)};
  // The last queries see most keys: they go first.
  const int first = (static_cast<int>(gridDim.x) / heads - 1 - block / heads) * kTileRows;
  const int seen = x.causal && first + kTileRows < x.seq_len ? first + kTileRows : x.seq_len;
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
    const bool exists = query < x.seq_len;
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
  write_rows<width>(dq, reinterpret_cast<float*>(memory.rows), rotation_from(x, first),
                    gradient_rows<T>(x, place.batch, place.head, first, aligned.rotated));
}

constexpr unsigned kDeltaThreads = 256, kDeltaLanes = 8;

/// Eight lanes add the products of a row of one head.
template <int m, typename T>
__global__ void __launch_bounds__(kDeltaThreads)
    attention_delta_kernel(const AttentionArguments x) {
  const std::int64_t rows = std::int64_t{x.batch} * x.seq_len * x.heads;
  const std::int64_t step = std::int64_t{gridDim.x} * (kDeltaThreads / kDeltaLanes);
  const int lane = static_cast<int>(threadIdx.x % kDeltaLanes);
  const std::int64_t own =
      std::int64_t{blockIdx.x} * (kDeltaThreads / kDeltaLanes) + threadIdx.x / kDeltaLanes;
  for (std::int64_t begin = 0; begin < rows; begin += step) {  // all lanes of a warp, to the end
    const std::int64_t row = begin + own;
    float sum = 0;
    if (row < rows) {
      const T* dout = static_cast<const T*>(x.dout) + row * x.head_dim;
      const T* out = static_cast<const T*>(x.out) + row * x.head_dim;
      for (int d = lane * m; d < x.head_dim; d += static_cast<int>(kDeltaLanes) * m) {
        const Pack<m> a = load<m>(dout + d), b = load<m>(out + d);
#pragma unroll
        for (int i = 0; i < m; ++i) sum += a[i] * b[i];
      }
    }
#pragma unroll
    for (int lanes = 1; lanes < static_cast<int>(kDeltaLanes); lanes *= 2) {
      sum += __shfl_xor_sync(0xffffffff, sum, lanes);
    }
    if (row < rows && lane == 0) {
      const std::int64_t token = row / x.heads, head = row % x.heads;
      const std::int64_t batch = token / x.seq_len, position = token % x.seq_len;
      x.delta[(batch * x.heads + head) * x.seq_len + position] = sum;
    }
  }
}

template <typename T>
AlignedRows aligned_rows(const AttentionArguments& x) {
  return {.out = heads_are_aligned<T>(x, x.dout, false) && heads_are_aligned<T>(x, x.out, false),
          .rotated = heads_are_aligned<T>(x, x.dqkv, x.cos != nullptr),
          .values = heads_are_aligned<T>(x, x.dqkv, false)};
}

template <typename T, int width, Gradient gradient>
void launch_key_gradients(const AttentionArguments& x, cudaStream_t stream) {
  constexpr std::size_t kBytes = BackwardMemory<T, width, kQueryTile<T, width>>::kBytes;
  launch(attention_key_gradients_kernel<T, width, gradient>, blocks_of(x, x.kv_heads),
         kAttentionThreads, kBytes, stream, x, aligned_rows<T>(x));
}

template <typename T>
void launch_delta(const AttentionArguments& x, cudaStream_t stream) {
  const bool aligned = aligned_rows<T>(x).out;
  const auto kernel = aligned ? attention_delta_kernel<kPack<T>, T> : attention_delta_kernel<1, T>;
  const std::int64_t lanes = std::int64_t{x.batch} * x.seq_len * x.heads * kDeltaLanes;
  launch(kernel, blocks_for(lanes, kDeltaThreads), kDeltaThreads, 0, stream, x);
}

}  // namespace

void launch_attention_delta(DType dtype, const AttentionArguments& x, cudaStream_t stream) {
  if (dtype == DType::f32) return launch_delta<float>(x, stream);
  launch_delta<__nv_bfloat16>(x, stream);
}

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

void launch_attention_query_gradients(DType dtype, const AttentionArguments& x,
                                      cudaStream_t stream) {
  with_width(dtype, x.head_dim, [&]<typename T, int width>(HeadWidth<T, width>) {
    constexpr std::size_t kBytes = BackwardMemory<T, width, kKeyTile<T, width>>::kBytes;
    launch(attention_query_gradients_kernel<T, width>, blocks_of(x, x.heads), kAttentionThreads,
           kBytes, stream, x, aligned_rows<T>(x));
  });
}

}  // namespace troupe::tensor::cuda
