#pragma once

#include <cstdint>

#include "tensor/cuda/kernels/attention/attention_kernels.h"
#include "tensor/cuda/kernels/attention/attention_tile.h"

// Which head and which positions a block of the attention kernels works on, and where their rows
// are.

namespace troupe::tensor::cuda {

/// One head of one sequence, which is a batch or a document in it.
struct HeadPlace {
  int batch, head;
  int begin, length;  ///< of the sequence, in the batch

  /// Another head of the sequence.
  __device__ __forceinline__ HeadPlace with_head(int other) const {
    return {batch, other, begin, length};
  }
  __device__ __forceinline__ std::int64_t token(const AttentionArguments& x, int position) const {
    return std::int64_t{batch} * x.seq_len + begin + position;
  }
};

/// The positions of one head that a block works on, as many as its tiles have rows.
struct BlockPlace {
  HeadPlace place;
  int first;  ///< position; beyond the sequence's end: there is nothing to do
};

/// Each document d has the tiles from starts[d] / rows + d on, and at least as many as it needs
/// until the next one's begin: so a tile's document is found without a sum over those before it.
template <int rows>
__device__ __forceinline__ BlockPlace document_place(const AttentionArguments& x, int tile,
                                                     int head) {
  int low = 0, high = x.documents;  // the document is in [low, high)
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    (x.starts[middle] / rows + middle <= tile ? low : high) = middle;
  }
  const int begin = x.starts[low];
  return {{0, head, begin, x.starts[low + 1] - begin}, (tile - begin / rows - low) * rows};
}

/// Tiles of `rows` positions that the sequences of a batch have, at most.
template <int rows>
__host__ __device__ __forceinline__ int tiles_of(const AttentionArguments& x) {
  return x.starts ? x.seq_len / rows + x.documents : (x.seq_len + rows - 1) / rows;
}

/// What a block works on: of `heads` heads, tiles in ascending order or, where the last queries see
/// most keys and so go first, in descending order.
template <int rows>
__device__ __forceinline__ BlockPlace block_place(const AttentionArguments& x, int heads,
                                                  bool descending) {
  const int all = x.batch * heads, block = static_cast<int>(blockIdx.x);
  const int tile = descending ? tiles_of<rows>(x) - 1 - block / all : block / all;
  if (x.starts) return document_place<rows>(x, tile, block % all);
  return {{block % all / heads, block % all % heads, 0, x.seq_len}, tile * rows};
}

/// The rows of the head of a tensor of B x S tokens, from position `first` on. Its row width is
/// `columns`, the head's columns begin at `column`.
template <typename T>
__device__ __forceinline__ Rows<T> token_rows(const AttentionArguments& x, T* data,
                                              const HeadPlace& place, int first,
                                              std::int64_t columns, std::int64_t column,
                                              bool aligned) {
  return {data + place.token(x, first) * columns + column, columns, place.length - first,
          x.head_dim, aligned};
}

/// The rows of `saved` that hold head `head` of `heads`, which begin with row `start` x S.
template <typename T>
__device__ __forceinline__ Rows<const T> saved_rows(const AttentionArguments& x, int start,
                                                    int heads, HeadPlace place, int first) {
  const std::int64_t head = std::int64_t{start} + place.batch * heads + place.head;
  const std::int64_t row = head * x.seq_len + place.begin + first;
  return {static_cast<const T*>(x.saved) + row * x.saved_width, x.saved_width, place.length - first,
          x.saved_width, true};
}
template <typename T>
__device__ __forceinline__ Rows<const T> query_rows(const AttentionArguments& x, HeadPlace place,
                                                    int first) {
  return saved_rows<T>(x, 0, x.heads, place, first);
}
template <typename T>
__device__ __forceinline__ Rows<const T> key_rows(const AttentionArguments& x, HeadPlace place,
                                                  int first) {
  return saved_rows<T>(x, x.batch * x.heads, x.kv_heads, place, first);
}
template <typename T>
__device__ __forceinline__ Rows<const T> value_rows(const AttentionArguments& x, HeadPlace place,
                                                    int first) {
  return saved_rows<T>(x, x.batch * (x.heads + x.kv_heads), x.kv_heads, place, first);
}

/// Index of the first position of a head's sequence in tensors [B,H,S].
__device__ __forceinline__ std::int64_t row_of(const AttentionArguments& x, HeadPlace place) {
  return (std::int64_t{place.batch} * x.heads + place.head) * x.seq_len + place.begin;
}

}  // namespace troupe::tensor::cuda
