#include <algorithm>

#include "tensor/cuda/kernels/attention/attention_scores.h"
#include "tensor/cuda/kernels/attention/attention_widths.h"
#include "tensor/cuda/kernels/attention/cached_attention_kernels.h"
#include "tensor/cuda/kernels/grid/dispatch.h"
#include "tensor/cuda/kernels/grid/elementwise.h"
#include "tensor/cuda/kernels/grid/launch_shape.h"
#include "tensor/cuda/kernels/grid/row_sums.h"

// The keys of a head of a row are divided into parts, of which each has a softmax of its own: a
// block's warps have 32 keys each, of which a lane computes one score, then the lanes have columns
// of the values. The softmaxes of the parts are added in their order: by the block that computes
// all parts of a head of a row, or, where few rows would leave most of a GPU idle, by a second
// kernel, for which several blocks leave them. Both give the same bits.

namespace troupe::tensor::cuda {
namespace {

constexpr int kLanes = 32;
constexpr int kWarps = 4;
constexpr int kThreads = kWarps * kLanes;
constexpr int kPartKeys = kThreads;
/// Blocks of a multiprocessor at once.
constexpr int kTogether = 4;

/// Element `column` of a head of D elements, rotated by the angles of `row` if there are any.
template <typename T>
__device__ __forceinline__ float rotated(const CachedAttentionArguments& x, int row, const T* head,
                                         int column) {
  const float value = to_float32(head[column]);
  if (!x.cos || column >= x.rotary_dim) return value;
  const int half = x.rotary_dim / 2;
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

/// A softmax over some keys, with some columns of the values that it weights.
template <typename T, int columns>
struct Softmax {
  float max, weight, sum[columns];

  /// Adds one over later keys. Which products are rounded is fixed, so that all kernels agree.
  __device__ __forceinline__ void add(const Softmax& later) {
    const float top = fmaxf(max, later.max);
    const float own = exponential<T>(max - top), other = exponential<T>(later.max - top);
    max = top;
    weight = fmaf(weight, own, later.weight * other);
#pragma unroll
    for (int i = 0; i < columns; ++i) sum[i] = fmaf(sum[i], own, later.sum[i] * other);
  }
};

/// The softmax of a part, of `parts` that a head of a row has room for: columns, maximum, weight.
__device__ __forceinline__ float* part_of(const CachedAttentionArguments& x, int parts, int place,
                                          int part) {
  return x.parts + (std::int64_t{place} * parts + part) * (x.head_dim + 2);
}

/// Keys before those that the row at `position` sees.
__device__ __forceinline__ int hidden_keys(const CachedAttentionArguments& x, int position) {
  return x.window > 0 && position >= x.window ? position - x.window + 1 : 0;
}

/// The softmax of keys [first, count), at most 32 and perhaps none, by one warp: a lane has the
/// weight of its key and columns lane, lane + 32, ...
template <typename T, int columns, bool limited, typename Query>
__device__ __forceinline__ Softmax<T, columns> warp_softmax(const CachedAttentionArguments& x,
                                                            const Query& query, const T* keys,
                                                            int first, int count) {
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  Softmax<T, columns> all{minus_infinity(), 0.0f, {}};
  if (count <= first) return all;
  float score = minus_infinity();
  if (lane >= first && lane < count) {
    const T* const key = keys + std::int64_t{lane} * x.row_width;
    score = 0;
    for (int c = 0; c < x.row_width; c += kPack<T>) {
      const Pack<kPack<T>> pack = load<kPack<T>>(key + c);
#pragma unroll
      for (int i = 0; i < kPack<T>; ++i) score += query[c + i] * pack[i];
    }
    score *= x.scale;
    if constexpr (limited) {
      if (x.cap > 0) score = x.cap * hyperbolic_tangent<T>(score / x.cap);
    }
  }
  all.max = warp_max(score);
  all.weight = exponential<T>(score - all.max);
  const T* value = keys + to_values(x) + std::int64_t{first} * x.row_width;
  for (int j = first; j < count; ++j, value += x.row_width) {
    const float factor = __shfl_sync(0xffffffff, all.weight, j);
#pragma unroll
    for (int i = 0; i < columns; ++i) {
      const int c = i * kLanes + lane;
      if (c < x.head_dim) all.sum[i] += factor * to_float32(value[c]);
    }
  }
  return all;
}

/// The softmax of a part, of which each warp has left its own: a thread has columns thread, thread
/// + kThreads, ...
template <typename T, int padded, int columns, typename Sums, typename OfWarps>
__device__ __forceinline__ Softmax<T, columns> block_softmax(const Sums& sums,
                                                             const OfWarps& maxima,
                                                             const OfWarps& weights) {
  Softmax<T, columns> whole{maxima[0], 0.0f, {}};  // a warp has a key
#pragma unroll
  for (int w = 1; w < kWarps; ++w) whole.max = fmaxf(whole.max, maxima[w]);
#pragma unroll
  for (int w = 0; w < kWarps; ++w) {
    const float correction = exponential<T>(maxima[w] - whole.max);
    whole.weight += correction * weights[w];
#pragma unroll
    for (int i = 0; i < columns; ++i) {
      const int c = i * kThreads + static_cast<int>(threadIdx.x);
      if (c < padded) whole.sum[i] += correction * sums[w * padded + c];
    }
  }
  return whole;
}

template <typename T, int columns>
__device__ __forceinline__ void keep(const CachedAttentionArguments& x, float* to,
                                     const Softmax<T, columns>& whole) {
#pragma unroll
  for (int i = 0; i < columns; ++i) {
    const int c = i * kThreads + static_cast<int>(threadIdx.x);
    if (c < x.head_dim) to[c] = whole.sum[i];
  }
  if (threadIdx.x == 0) {
    to[x.head_dim] = whole.max;
    to[x.head_dim + 1] = whole.weight;
  }
}

template <typename T, int columns>
__device__ __forceinline__ void write(const CachedAttentionArguments& x,
                                      const Softmax<T, columns>& all, T* to) {
#pragma unroll
  for (int i = 0; i < columns; ++i) {
    const int c = i * kThreads + static_cast<int>(threadIdx.x);
    if (c < x.head_dim) to[c] = from_float32<T>(all.sum[i] / all.weight);
  }
}

/// Blocks beyond the last part of a short sequence have nothing to do. With room for fewer blocks
/// of the widest heads no register spills.
template <typename T, int width, bool limited>
__global__ void __launch_bounds__(kThreads, width > 128 ? kTogether - 1 : kTogether)
    cached_attention_kernel(const CachedAttentionArguments x, int split, int parts) {
  constexpr int kColumns = width < kLanes ? 1 : width / kLanes;  // of a lane
  constexpr int kPadded = kColumns * kLanes, kSums = kWarps * kPadded;
  constexpr int kOwn = (kPadded + kThreads - 1) / kThreads;  // columns of a thread
  SHARED(float, query, kPadded);
  SHARED(float, sums, kSums);
  SHARED(float, maxima, kWarps);
  SHARED(float, weights, kWarps);
  const int thread = static_cast<int>(threadIdx.x), warp = thread / kLanes, lane = thread % kLanes;
  const int place = static_cast<int>(blockIdx.x) / split;
  const int row = place / x.heads, head = place % x.heads;
  const int sequence = x.row_sequences[row], position = x.row_positions[row];
  T* const to = static_cast<T*>(x.out) + std::int64_t{place} * x.head_dim;
  if (sequence < 0) {
    for (int c = thread; c < x.head_dim; c += kThreads) to[c] = from_float32<T>(0.0f);
    return;
  }
  for (int c = thread; c < kPadded; c += kThreads)
    query[c] = c < x.head_dim ? rotated(x, row, head_of<T>(x, row, head), c) : 0.0f;
  __syncthreads();

  const T* const keys = keys_of<T>(x, sequence, head / (x.heads / x.kv_heads));
  Softmax<T, kOwn> all{};
  const int hidden = limited ? hidden_keys(x, position) : 0, first_part = hidden / kPartKeys;
  for (int part = first_part + static_cast<int>(blockIdx.x) % split; part <= position / kPartKeys;
       part += split) {
    const int before = part * kPartKeys + warp * kLanes, left = position - before + 1;
    const Softmax<T, kColumns> own = warp_softmax<T, kColumns, limited>(
        x, query, keys + std::int64_t{before} * x.row_width,
        limited && hidden > before ? hidden - before : 0, left < kLanes ? left : kLanes);
    const float weight = warp_sum(own.weight);
    if (lane == 0) {
      maxima[warp] = own.max;
      weights[warp] = weight;
    }
#pragma unroll
    for (int i = 0; i < kColumns; ++i) sums[warp * kPadded + i * kLanes + lane] = own.sum[i];
    __syncthreads();
    const Softmax<T, kOwn> whole = block_softmax<T, kPadded, kOwn>(sums, maxima, weights);
    if (split > 1)
      keep(x, part_of(x, parts, place, part), whole);
    else if (part == first_part)
      all = whole;
    else
      all.add(whole);
    __syncthreads();
  }
  if (split == 1) write(x, all, to);
}

/// Adds the parts of each head of each row.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    add_parts_kernel(const CachedAttentionArguments x, int parts) {
  const int place = static_cast<int>(blockIdx.x), row = place / x.heads;
  if (x.row_sequences[row] < 0) return;  // zeros by the other kernel
  const int position = x.row_positions[row], count = position / kPartKeys + 1;
  const int first = hidden_keys(x, position) / kPartKeys;
  T* const to = static_cast<T*>(x.out) + std::int64_t{place} * x.head_dim;
  for (int c = static_cast<int>(threadIdx.x); c < x.head_dim; c += kThreads) {
    const auto softmax = [&](int part) {
      const float* const from = part_of(x, parts, place, part);
      return Softmax<T, 1>{from[x.head_dim], from[x.head_dim + 1], {from[c]}};
    };
    Softmax<T, 1> all = softmax(first);
    for (int part = first + 1; part < count; ++part) all.add(softmax(part));
    to[c] = from_float32<T>(all.sum[0] / all.weight);
  }
}

/// The most parts that a head of a row has.
int most_parts(const CachedAttentionArguments& x) {
  return divide_up(x.capacity, kPartKeys);
}

constexpr std::int64_t kBlocksWanted = kTogether * kMultiprocessors;

/// The blocks of a head of a row, so that a GPU has blocks for all its multiprocessors.
int split_of(const CachedAttentionArguments& x) {
  const std::int64_t places = std::int64_t{x.rows} * x.heads;
  return static_cast<int>(
      std::clamp<std::int64_t>(divide_up(kBlocksWanted, places), 1, most_parts(x)));
}

}  // namespace

void launch_store_in_cache(DType dtype, const CachedAttentionArguments& x, cudaStream_t stream) {
  const std::int64_t items = std::int64_t{x.rows} * x.kv_heads * x.row_width;
  with_act_type(dtype, [&](auto type) {
    launch(store_in_cache_kernel<typename decltype(type)::type>, blocks_for(items), kElementThreads,
           0, stream, x);
  });
}

std::size_t cached_attention_scratch(const CachedAttentionArguments& x) {
  if (most_parts(x) == 1) return 0;
  // A call with more heads of rows has a block for each, which needs none.
  const std::int64_t places = std::min(std::int64_t{x.rows} * x.heads, kBlocksWanted - 1);
  return static_cast<std::size_t>(places * most_parts(x) * (x.head_dim + 2)) * sizeof(float);
}

void launch_cached_attention(DType dtype, const CachedAttentionArguments& x, cudaStream_t stream) {
  const int split = split_of(x), parts = most_parts(x);
  const auto places = static_cast<unsigned>(x.rows * x.heads);
  with_width(dtype, x.head_dim, [&]<typename T, int width>(HeadWidth<T, width>) {
    with_limits<T>(x.window > 0 || x.cap > 0, [&](auto limited) {
      launch(cached_attention_kernel<T, width, limited()>, places * static_cast<unsigned>(split),
             kThreads, 0, stream, x, split, parts);
    });
    if (split > 1) launch(add_parts_kernel<T>, places, kThreads, 0, stream, x, parts);
  });
}

}  // namespace troupe::tensor::cuda
