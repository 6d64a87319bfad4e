#include "tensor/cuda/kernels/attention/rotary_kernels.h"

#include "tensor/cuda/kernels/grid/dispatch.h"
#include "tensor/cuda/kernels/grid/elementwise.h"
#include "tensor/cuda/kernels/grid/packs.h"

namespace troupe::tensor::cuda {
namespace {

__global__ void __launch_bounds__(kElementThreads)
    rotation_tables_kernel(std::int64_t seq_len, std::int64_t rotary_dim,
                           const RotaryFrequencies frequencies, float* cosine, float* sine) {
  const std::int64_t half = rotary_dim / 2;
  for_each_item(seq_len * half, [&](std::int64_t item) {
    const float angle = static_cast<float>(item / half) * frequencies.inverse[item % half];
    cosine[item] = static_cast<float>(cos(double{angle})) * frequencies.scaling;
    sine[item] = static_cast<float>(sin(double{angle})) * frequencies.scaling;
  });
}

__global__ void __launch_bounds__(kElementThreads)
    frequencies_kernel(std::int64_t pairs, const RotaryFrequencies frequencies, float* inverse) {
  for_each_item(pairs, [&](std::int64_t item) { inverse[item] = frequencies.inverse[item]; });
}

__global__ void __launch_bounds__(kElementThreads)
    document_tables_kernel(const DocumentRotation x, std::int64_t tokens, float* cosine,
                           float* sine) {
  const std::int64_t half = x.rotary_dim / 2;
  for_each_item(tokens * half, [&](std::int64_t item) {
    const std::int64_t token = item / half;
    int low = 0, high = x.documents;  // the token's document is in [low, high)
    while (high - low > 1) {
      const int middle = (low + high) / 2;
      (x.starts[middle] <= token ? low : high) = middle;
    }
    const std::int64_t length = x.starts[low + 1] - x.starts[low];
    const std::int64_t longer = length > x.first ? length - x.first : 0;
    const std::int64_t row = longer < x.lengths ? longer : x.lengths - 1;
    const float angle =
        static_cast<float>(token - x.starts[low]) * x.inverse[row * half + item % half];
    cosine[item] = static_cast<float>(cos(double{angle})) * x.scaling;
    sine[item] = static_cast<float>(sin(double{angle})) * x.scaling;
  });
}

/// Where one head of one token is read and written.
template <typename T>
struct SavedHead {
  const T* from;
  T* to;
  std::int64_t position;
  bool rotated;

  /// Heads are numbered as the columns of qkv are: token by token, H + 2K each.
  __device__ __forceinline__ SavedHead(const SavedHeads& x, std::int64_t number)
      : from(static_cast<const T*>(x.qkv) + number * x.head_dim) {
    const std::int64_t all = x.heads + 2 * x.kv_heads;
    const std::int64_t token = number / all, head = number % all;
    const std::int64_t batch = token / x.seq_len;
    position = token % x.seq_len;
    rotated = x.cos && head < x.heads + x.kv_heads;
    std::int64_t row = batch * x.heads + head;  // in units of S rows
    if (head >= x.heads + x.kv_heads) {
      row = x.batch * (x.heads + x.kv_heads) + batch * x.kv_heads + head - x.heads - x.kv_heads;
    } else if (head >= x.heads) {
      row = x.batch * x.heads + batch * x.kv_heads + head - x.heads;
    }
    row = x.by_token ? number : row * x.seq_len + position;
    to = static_cast<T*>(x.saved) + row * x.saved_width;
  }
};

/// Packs of a head, two that turn together being one. Of a head that nothing turns in they are
/// pairs too.
struct HeadPacks {
  std::int64_t half, count;

  template <typename T>
  static __host__ __device__ __forceinline__ HeadPacks of(const SavedHeads& x) {
    const std::int64_t half = (x.cos ? x.rotary_dim : x.head_dim) / 2;
    return {half, (x.head_dim - half) / kPack<T>};
  }
};

/// For heads that are whole packs of 16 bytes, aligned so, and whose halves that turn are too.
template <typename T>
__global__ void __launch_bounds__(kElementThreads) save_packs_kernel(const SavedHeads x) {
  constexpr int m = kPack<T>;
  const auto [half, packs] = HeadPacks::of<T>(x);
  const std::int64_t heads = x.batch * x.seq_len * (x.heads + 2 * x.kv_heads);
  for_each_item(heads * packs, [&](std::int64_t item) {
    const SavedHead<T> head(x, item / packs);
    const std::int64_t column = item % packs * m;
    if (column >= half) return store(load<m>(head.from + half + column), head.to + half + column);
    Pack<m> first = load<m>(head.from + column), second = load<m>(head.from + half + column);
    if (head.rotated) {
      const std::int64_t angle = head.position * half + column;
      const Pack<m> cos = load<m>(x.cos + angle), sin = load<m>(x.sin + angle);
#pragma unroll
      for (int i = 0; i < m; ++i) {
        const float a = first[i], b = second[i];
        first[i] = a * cos[i] - b * sin[i];
        second[i] = b * cos[i] + a * sin[i];
      }
    }
    store(first, head.to + column);
    store(second, head.to + half + column);
  });
}

/// For all other heads, element by element.
template <typename T>
__global__ void __launch_bounds__(kElementThreads) save_elements_kernel(const SavedHeads x) {
  const std::int64_t half = x.rotary_dim / 2;
  const std::int64_t heads = x.batch * x.seq_len * (x.heads + 2 * x.kv_heads);
  for_each_item(heads * x.saved_width, [&](std::int64_t item) {
    const SavedHead<T> head(x, item / x.saved_width);
    const std::int64_t column = item % x.saved_width;
    float value = 0;
    if (column < x.head_dim) value = to_float32(head.from[column]);
    if (column < x.rotary_dim && head.rotated) {
      const bool lower = column < half;
      const std::int64_t angle = head.position * half + (lower ? column : column - half);
      const float other = to_float32(head.from[lower ? column + half : column - half]);
      value = value * x.cos[angle] + (lower ? -other : other) * x.sin[angle];
    }
    head.to[column] = from_float32<T>(value);
  });
}

template <typename T>
void save_heads(const SavedHeads& x, cudaStream_t stream) {
  const HeadPacks packs = HeadPacks::of<T>(x);
  const bool packed = x.head_dim % 2 == 0 && x.saved_width == x.head_dim &&
                      packs.half % kPack<T> == 0 && rows_are_aligned(x.head_dim, kPack<T>, {x.qkv});
  const std::int64_t heads = x.batch * x.seq_len * (x.heads + 2 * x.kv_heads);
  const std::int64_t items = heads * (packed ? packs.count : x.saved_width);
  launch(packed ? save_packs_kernel<T> : save_elements_kernel<T>, blocks_for(items),
         kElementThreads, 0, stream, x);
}

/// An item is m columns of the lower half of what turns in a head, with those of the upper half.
template <typename T, int m>
__global__ void __launch_bounds__(kElementThreads) rotate_back_kernel(const RotatedGradients x) {
  const std::int64_t half = x.rotary_dim / 2, packs = half / m;
  const std::int64_t rotated = x.heads + x.kv_heads, all = rotated + x.kv_heads;
  for_each_item(x.batch * x.seq_len * rotated * packs, [&](std::int64_t item) {
    const std::int64_t column = item % packs * m, number = item / packs;
    const std::int64_t token = number / rotated, head = number % rotated;
    T* const lower = static_cast<T*>(x.dqkv) + (token * all + head) * x.head_dim + column;
    const std::int64_t angle = token % x.seq_len * half + column;
    Pack<m> first = load<m>(lower), second = load<m>(lower + half);
    const Pack<m> cos = load<m>(x.cos + angle), sin = load<m>(x.sin + angle);
#pragma unroll
    for (int i = 0; i < m; ++i) {
      const float a = first[i], b = second[i];
      first[i] = a * cos[i] + b * sin[i];
      second[i] = b * cos[i] - a * sin[i];
    }
    store(first, lower);
    store(second, lower + half);
  });
}

template <typename T>
void rotate_back(const RotatedGradients& x, cudaStream_t stream) {
  const std::int64_t half = x.rotary_dim / 2;
  const bool packed = half % kPack<T> == 0 && rows_are_aligned(x.head_dim, kPack<T>, {x.dqkv});
  const std::int64_t items = x.batch * x.seq_len * (x.heads + x.kv_heads) * half;
  launch(packed ? rotate_back_kernel<T, kPack<T>> : rotate_back_kernel<T, 1>,
         blocks_for(packed ? items / kPack<T> : items), kElementThreads, 0, stream, x);
}

}  // namespace

void launch_rotation_tables(std::int64_t seq_len, std::int64_t rotary_dim,
                            const RotaryFrequencies& frequencies, float* cos, float* sin,
                            cudaStream_t stream) {
  launch(rotation_tables_kernel, blocks_for(seq_len * (rotary_dim / 2)), kElementThreads, 0, stream,
         seq_len, rotary_dim, frequencies, cos, sin);
}

void launch_frequencies(std::int64_t rotary_dim, const RotaryFrequencies& frequencies,
                        float* inverse, cudaStream_t stream) {
  launch(frequencies_kernel, blocks_for(rotary_dim / 2), kElementThreads, 0, stream, rotary_dim / 2,
         frequencies, inverse);
}

void launch_document_tables(const DocumentRotation& rotation, std::int64_t tokens, float* cos,
                            float* sin, cudaStream_t stream) {
  launch(document_tables_kernel, blocks_for(tokens * (rotation.rotary_dim / 2)), kElementThreads, 0,
         stream, rotation, tokens, cos, sin);
}

void launch_save_heads(DType dtype, const SavedHeads& heads, cudaStream_t stream) {
  with_act_type(dtype,
                [&](auto type) { save_heads<typename decltype(type)::type>(heads, stream); });
}

void launch_rotate_back(DType dtype, const RotatedGradients& gradients, cudaStream_t stream) {
  with_act_type(dtype,
                [&](auto type) { rotate_back<typename decltype(type)::type>(gradients, stream); });
}

}  // namespace troupe::tensor::cuda
