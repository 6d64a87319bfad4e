#include "tensor/cuda/kernels/attention/attention_scores.h"
#include "tensor/cuda/kernels/attention/attention_widths.h"
#include "tensor/cuda/kernels/attention/cached_attention_kernels.h"
#include "tensor/cuda/kernels/grid/dispatch.h"
#include "tensor/cuda/kernels/grid/elementwise.h"
#include "tensor/cuda/kernels/grid/row_sums.h"

// A block has one head of one row. Its warps take turns at 32 keys of the cache: a lane computes
// the score of one key, then the lanes have columns of the values. Each warp has a softmax whose
// maximum and sum follow along; what the warps have is added in their order at the end.

namespace troupe::tensor::cuda {
namespace {

constexpr int kLanes = 32;
constexpr int kWarps = 4;
constexpr int kThreads = kWarps * kLanes;

/// Element `column` of a head of D elements, rotated by the angles of `row` if there are any.
template <typename T>
__device__ __forceinline__ float rotated(const CachedAttentionArguments& x, int row, const T* head,
                                         int column) {
  const float value = to_float32(head[column]);
  if (!x.cos) return value;
  const int half = x.head_dim / 2;
  const bool lower = column < half;
  const std::int64_t angle = std::int64_t{row} * half + (lower ? column : column - half);
  const float other = to_float32(head[lower ? column + half : column - half]);
  return value * x.cos[angle] + (lower ? -other : other) * x.sin[angle];
}

/// Head `head` of the H + 2K of a row of qkv.
template <typename T>
__device__ __forceinline__ const T* head_of(const CachedAttentionArguments& x, int row, int head) {
  const std::int64_t all = x.heads + 2 * x.kv_heads;
  return static_cast<const T*>(x.qkv) + (row * all + head) * x.head_dim;
}

/// Position 0 of the keys of one sequence and head.
template <typename T>
__device__ __forceinline__ T* keys_of(const CachedAttentionArguments& x, int sequence, int head) {
  return static_cast<T*>(x.cache) +
         (std::int64_t{sequence} * x.kv_heads + head) * x.capacity * x.row_width;
}

/// Elements from a key of the cache to the value of the same place.
__device__ __forceinline__ std::int64_t to_values(const CachedAttentionArguments& x) {
  return std::int64_t{x.sequences} * x.kv_heads * x.capacity * x.row_width;
}

template <typename T>
__global__ void __launch_bounds__(kElementThreads)
    store_in_cache_kernel(const CachedAttentionArguments x) {
  const std::int64_t items = std::int64_t{x.rows} * x.kv_heads * x.row_width;
  for_each_item(items, [&](std::int64_t item) {
    const int column = static_cast<int>(item % x.row_width);
    const int head = static_cast<int>(item / x.row_width % x.kv_heads);
    const int row = static_cast<int>(item / x.row_width / x.kv_heads);
    const int sequence = x.row_sequences[row];
    if (sequence < 0) return;
    T* const key =
        keys_of<T>(x, sequence, head) + std::int64_t{x.row_positions[row]} * x.row_width + column;
    T* const value = key + to_values(x);
    if (column >= x.head_dim) {
      *key = *value = from_float32<T>(0.0f);
    } else {
      *key = from_float32<T>(rotated(x, row, head_of<T>(x, row, x.heads + head), column));
      *value = head_of<T>(x, row, x.heads + x.kv_heads + head)[column];
    }
  });
}

/// With room for four blocks on a multiprocessor no register spills.
template <typename T, int width>
__global__ void __launch_bounds__(kThreads, 4)
    cached_attention_kernel(const CachedAttentionArguments x) {
  constexpr int kColumns = width < kLanes ? 1 : width / kLanes;  // of a lane
  constexpr int kPadded = kColumns * kLanes, kSums = kWarps * kPadded;
  SHARED(float, query, kPadded);
  SHARED(float, sums, kSums);
  SHARED(float, maxima, kWarps);
  SHARED(float, weights, kWarps);
  const int thread = static_cast<int>(threadIdx.x), warp = thread / kLanes, lane = thread % kLanes;
  const int row = static_cast<int>(blockIdx.x) / x.heads;
  const int head = static_cast<int>(blockIdx.x) % x.heads;
  const int sequence = x.row_sequences[row], position = x.row_positions[row];
  T* const to = static_cast<T*>(x.out) + (std::int64_t{row} * x.heads + head) * x.head_dim;
  if (sequence < 0) {
    for (int c = thread; c < x.head_dim; c += kThreads) to[c] = from_float32<T>(0.0f);
    return;
  }
  for (int c = thread; c < kPadded; c += kThreads)
    query[c] = c < x.head_dim ? rotated(x, row, head_of<T>(x, row, head), c) : 0.0f;
  __syncthreads();

  const T* const keys = keys_of<T>(x, sequence, head / (x.heads / x.kv_heads));
  const T* const values = keys + to_values(x);
  float max = minus_infinity(), weight = 0, sum[kColumns] = {};
  for (int first = warp * kLanes; first <= position; first += kThreads) {
    float score = minus_infinity();
    if (first + lane <= position) {
      const T* const key = keys + std::int64_t{first + lane} * x.row_width;
      score = 0;
      for (int c = 0; c < x.row_width; c += kPack<T>) {
        const Pack<kPack<T>> pack = load<kPack<T>>(key + c);
#pragma unroll
        for (int i = 0; i < kPack<T>; ++i) score += query[c + i] * pack[i];
      }
      score *= x.scale;
    }
    const float before = max;
    max = fmaxf(max, warp_max(score));
    const float correction = exponential<T>(before - max), p = exponential<T>(score - max);
    weight = weight * correction + p;
#pragma unroll
    for (int i = 0; i < kColumns; ++i) sum[i] *= correction;
    const int count = position - first + 1 < kLanes ? position - first + 1 : kLanes;
    for (int j = 0; j < count; ++j) {
      const float factor = __shfl_sync(0xffffffff, p, j);
      const T* const value = values + std::int64_t{first + j} * x.row_width;
#pragma unroll
      for (int i = 0; i < kColumns; ++i) {
        const int c = i * kLanes + lane;
        if (c < x.head_dim) sum[i] += factor * to_float32(value[c]);
      }
    }
  }

  weight = warp_sum(weight);
  if (lane == 0) {
    maxima[warp] = max;
    weights[warp] = weight;
  }
#pragma unroll
  for (int i = 0; i < kColumns; ++i) sums[warp * kPadded + i * kLanes + lane] = sum[i];
  __syncthreads();
  max = maxima[0];  // the first warp has seen a key
#pragma unroll
  for (int w = 1; w < kWarps; ++w) max = fmaxf(max, maxima[w]);
  for (int c = thread; c < x.head_dim; c += kThreads) {
    float total = 0, all = 0;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) {
      const float correction = exponential<T>(maxima[w] - max);
      total += correction * sums[w * kPadded + c];
      all += correction * weights[w];
    }
    to[c] = from_float32<T>(total / all);
  }
}

}  // namespace

void launch_store_in_cache(DType dtype, const CachedAttentionArguments& x, cudaStream_t stream) {
  const std::int64_t items = std::int64_t{x.rows} * x.kv_heads * x.row_width;
  with_act_type(dtype, [&](auto type) {
    launch(store_in_cache_kernel<typename decltype(type)::type>, blocks_for(items), kElementThreads,
           0, stream, x);
  });
}

void launch_cached_attention(DType dtype, const CachedAttentionArguments& x, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>(x.rows * x.heads);
  with_width(dtype, x.head_dim, [&]<typename T, int width>(HeadWidth<T, width>) {
    launch(cached_attention_kernel<T, width>, blocks, kThreads, 0, stream, x);
  });
}

}  // namespace troupe::tensor::cuda
