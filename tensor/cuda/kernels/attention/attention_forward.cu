#include "tensor/cuda/kernels/attention/attention_scores.h"
#include "tensor/cuda/kernels/attention/attention_widths.h"

// FlashAttention-2 (arXiv 2307.08691), algorithm 1: a block keeps rows of queries and goes
// through the keys that they may see, with a softmax whose maximum and sum follow along.

namespace troupe::tensor::cuda {
namespace {

template <typename T, int width, typename Tiling_>
struct ForwardMemory {
  using Tiles = Tiling_;
  static constexpr int kStride = kTileStride<T, width>;
  static constexpr int kElements = (Tiles::rows + 2 * Tiles::columns) * kStride;
  static constexpr int kKept =
      sizeof(T) == sizeof(float) ? Tiles::rows * kKeptStride<Tiles::columns> : 0;
  static constexpr std::size_t kTiles = kElements * sizeof(T) + kKept * sizeof(float);
  static constexpr std::size_t kStaging = kStagingBytes<Tiles::rows, width>;
  static constexpr std::size_t kBytes = kTiles > kStaging ? kTiles : kStaging;

  T* queries = dynamic_shared<T>();
  T* keys = queries + Tiles::rows * kStride;
  T* values = keys + Tiles::columns * kStride;
  float* kept = reinterpret_cast<float*>(queries + kElements);
};

/// Tiles of keys are half as long where rows are long, for the sake of shared memory and registers.
template <typename T, int width>
using Large = ForwardMemory<T, width, Tiling<64, (width * sizeof(T) > 256) ? 32 : 64>>;
template <typename T, int width>
using Small = ForwardMemory<T, width, Tiling<64, 8>>;

/// Maximum and sum of the scores of a lane's two rows; a row's four lanes have one maximum, and
/// parts of one sum.
struct RunningSoftmax {
  float max[2] = {minus_infinity(), minus_infinity()};
  float sum[2] = {0, 0};

  /// What is subtracted from scores: the maximum, or 0 if the row has seen no key, so that e^(-inf
  /// - 0) is 0 and not NaN.
  __device__ __forceinline__ float reference(int row) const {
    return max[row] == minus_infinity() ? 0.0f : max[row];
  }

  /// Turns scores into e^(score - reference); what was computed before is to be multiplied by
  /// correction[2].
  template <typename T, int n>
  __device__ __forceinline__ void add(float (&s)[n][4], float (&correction)[2]) {
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      float largest = max[row];
#pragma unroll
      for (int i = 0; i < n; ++i) {
        largest = fmaxf(largest, fmaxf(s[i][2 * row], s[i][2 * row + 1]));
      }
      largest = fmaxf(largest, __shfl_xor_sync(0xffffffff, largest, 1));
      largest = fmaxf(largest, __shfl_xor_sync(0xffffffff, largest, 2));
      const float before = max[row];
      max[row] = largest;
      correction[row] = exponential<T>(before - reference(row));
      float added = 0;
#pragma unroll
      for (int i = 0; i < n; ++i) {
#pragma unroll
        for (int j = 2 * row; j < 2 * row + 2; ++j) {
          s[i][j] = exponential<T>(s[i][j] - reference(row));
          added += s[i][j];
        }
      }
      sum[row] = sum[row] * correction[row] + added;
    }
  }

  /// Adds the sums of the four lanes of a row.
  __device__ __forceinline__ void finish() {
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      sum[row] += __shfl_xor_sync(0xffffffff, sum[row], 1);
      sum[row] += __shfl_xor_sync(0xffffffff, sum[row], 2);
    }
  }
};

template <int n>
__device__ __forceinline__ void scale_rows(const float (&factor)[2], float (&c)[n][4]) {
#pragma unroll
  for (int i = 0; i < n; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) c[i][j] *= factor[j / 2];
  }
}

/// out and lse of a tile of queries.
template <typename T, int width, bool limited, typename Memory>
__device__ __forceinline__ void attend(const AttentionArguments& x, bool aligned) {
  constexpr int kRows = Memory::Tiles::rows, kKeys = Memory::Tiles::columns;
  constexpr int kThreads = Memory::Tiles::threads;
  const Memory memory;
  const Lane lane;
  const auto [place, first] = block_place<kRows>(x, x.heads, true);
  if (first >= place.length) return;
  const HeadPlace shared = place.with_head(place.head / (x.heads / x.kv_heads));
  const int seen = x.causal && first + kRows < place.length ? first + kRows : place.length;
  load_tile<kRows, width, kThreads>(query_rows<T>(x, place, first), memory.queries);
  const T* queries = memory.queries + lane.warp_row * memory.kStride;
  float* kept = memory.kept + lane.warp_row * kKeptStride<kKeys>;

  float out[width / 8][4];
  clear(out);
  RunningSoftmax softmax;
#pragma unroll 1
  for (int key = first_tile<limited, kKeys>(x, first); key < seen; key += kKeys) {
    __syncthreads();
    load_tile<kKeys, width, kThreads>(key_rows<T>(x, shared, key), memory.keys);
    load_tile<kKeys, width, kThreads>(value_rows<T>(x, shared, key), memory.values);
    __syncthreads();
    const ScoreTile<false, kRows> tile{place, first, key};
    const std::uint32_t bits = x.dropout.threshold ? kept_probabilities<kKeys / 8>(x, tile) : 0;
    float scores[kKeys / 8][4], correction[2];
    clear(scores);
    multiply_rows<width>(queries, memory.keys, scores);
    finish_scores<T, limited>(x, tile, scores);
    softmax.template add<T>(scores, correction);
    if (x.dropout.threshold) drop(bits, 1, scores);
    scale_rows(correction, out);
    multiply_kept(scores, memory.values, kept, out);
  }

  softmax.finish();
  float factor[2];
#pragma unroll
  for (int row = 0; row < 2; ++row) {
    const float sum = softmax.sum[row];
    factor[row] = sum == 0 ? 0.0f : x.dropout.scale / sum;
    const int query = first + lane.warp_row + lane.row(2 * row);
    if (lane.number % 4 == 0 && query < place.length) {
      x.lse[row_of(x, place) + query] = softmax.reference(row) + logf(sum);
    }
  }
  scale_rows(factor, out);
  const std::int64_t columns = std::int64_t{x.heads} * x.head_dim;
  write_rows<width>(out, reinterpret_cast<float*>(memory.queries), {},
                    token_rows(x, static_cast<T*>(x.out), place, first, columns,
                               std::int64_t{place.head} * x.head_dim, aligned));
}

/// The number of blocks on a multiprocessor is the one for which no register spills.
template <typename T, int width, bool limited, typename Memory>
__global__ void __launch_bounds__(
    Memory::Tiles::threads,
    blocks_together<Memory>(width < 128 || (width == 128 && sizeof(T) == 4) ? 3 : 2))
    attention_forward_kernel(const AttentionArguments x, const bool aligned) {
  if constexpr (is_of_use<Memory, Large<T, width>>()) {
    attend<T, width, limited, Memory>(x, aligned);
  } else {
    __trap();
  }
}

}  // namespace

void launch_attention_forward(DType dtype, const AttentionArguments& x, cudaStream_t stream) {
  with_width(dtype, x.head_dim, [&]<typename T, int width>(HeadWidth<T, width>) {
    with_memory<Large<T, width>, Small<T, width>>(stream, [&]<typename Memory>(Type<Memory>) {
      with_limits<T>(x.limited(), [&](auto limited) {
        launch(attention_forward_kernel<T, width, limited(), Memory>,
               blocks_of<Memory::Tiles::rows>(x, x.heads), Memory::Tiles::threads, Memory::kBytes,
               stream, x, heads_are_aligned<T>(x, x.out, false));
      });
    });
  });
}

}  // namespace troupe::tensor::cuda
