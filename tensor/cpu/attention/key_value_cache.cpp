#include "tensor/cpu/attention/key_value_cache.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/cpu/attention/key_value_cache.cpp"
#include <hwy/foreach_target.h>

#include "tensor/cpu/loops/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace troupe::tensor::HWY_NAMESPACE {

constexpr std::int64_t kTile = CachedHead::kTile;
constexpr auto kMostLanes = static_cast<std::int64_t>(hn::MaxLanes(F32()));
constexpr std::int64_t kTileVectors = std::max<std::int64_t>(1, kTile / kMostLanes);

// How many rows, tiles of keys, and vectors of values are computed together. Their product is the
// number of sums, which should be many, to hide the latency of an addition, and stay in registers:
// AVX-512 has 32 of them, AVX2 16.
constexpr std::int64_t kRows = 4;
constexpr std::int64_t kTiles = kMostLanes >= 16 ? 4 : 1;
constexpr std::int64_t kVectors = kMostLanes >= 16 ? 4 : 2;

/// Calls body(size, first) for groups of [i, count) whose size is known to the compiler: N as long
/// as there are so many, then N / 2 and so on.
template <std::int64_t N, typename Body>
HWY_INLINE void for_each_group(std::int64_t count, const Body& body, std::int64_t i = 0) {
  for (; i + N <= count; i += N) body(std::integral_constant<std::int64_t, N>(), i);
  if constexpr (N > 1) for_each_group<N / 2>(count, body, i);
}

/// The scores of R rows for N tiles. q and scores: of the first row.
template <std::int64_t R, std::int64_t N, typename T>
HWY_INLINE void score_tiles(const float* q, const T* tiles, std::int64_t head_dim, float* scores,
                            std::int64_t stride) {
  constexpr std::int64_t V = N * kTileVectors;
  const auto tile_of = [&](std::int64_t v) { return v / kTileVectors * kTile; };
  const auto lane_of = [&](std::int64_t v) HWY_ATTR { return v % kTileVectors * lanes(); };
  Vector sum[R][V];
  for (auto& row : sum)
    for (Vector& x : row) x = zero();
  for (std::int64_t d = 0; d < head_dim; ++d) {
    Vector key[V];
    for (std::int64_t v = 0; v < V; ++v)
      key[v] = load(tiles + tile_of(v) * head_dim + d * kTile + lane_of(v));
    for (std::int64_t r = 0; r < R; ++r) {
      const Vector query = constant(q[r * head_dim + d]);
      for (std::int64_t v = 0; v < V; ++v) sum[r][v] = hn::MulAdd(query, key[v], sum[r][v]);
    }
  }
  for (std::int64_t r = 0; r < R; ++r)
    for (std::int64_t v = 0; v < V; ++v)
      store(sum[r][v], scores + r * stride + tile_of(v) + lane_of(v));
}

void scores_all(const QueryBlock& block, const CachedHead& head, const float* q, float* scores) {
  const std::int64_t head_dim = head.head_dim;
  with_type(head.dtype, [&]<typename T>(T*) HWY_ATTR {
    const T* keys = static_cast<const T*>(head.keys) + block.first_key * head_dim;
    for_each_group<kTiles>(block.columns / kTile, [&](auto tiles, std::int64_t tile) HWY_ATTR {
      const std::int64_t column = tile * kTile;
      for_each_group<kRows>(block.rows(), [&](auto rows, std::int64_t row) HWY_ATTR {
        score_tiles<rows(), tiles()>(q + row * head_dim, keys + column * head_dim, head_dim,
                                     scores + row * block.columns + column, block.columns);
      });
    });
  });
}

/// Positions begin ... end - 1, with the probabilities of rows and what they are multiplied with.
template <typename T>
struct Weighted {
  const float* p;       // of the first row
  std::int64_t stride;  // from a row of p to the next
  const T* values;      // of position 0
  std::int64_t head_dim, begin, end;
};

/// sums[R rows, V vectors from column i on] += p x values. The last of V vectors has n elements.
template <std::int64_t R, std::int64_t V, typename T>
HWY_INLINE void add_columns(const Weighted<T>& x, std::int64_t i, std::int64_t n, float* sums) {
  const auto count = [&](std::int64_t v) HWY_ATTR { return v + 1 < V ? lanes() : n; };
  const auto at = [&](std::int64_t v) HWY_ATTR { return i + v * lanes(); };
  Vector sum[R][V];
  for (std::int64_t r = 0; r < R; ++r)
    for (std::int64_t v = 0; v < V; ++v) sum[r][v] = load(sums + r * x.head_dim + at(v), count(v));
  for (std::int64_t j = x.begin; j < x.end; ++j) {
    Vector value[V];
    for (std::int64_t v = 0; v < V; ++v)
      value[v] = load(x.values + j * x.head_dim + at(v), count(v));
    for (std::int64_t r = 0; r < R; ++r) {
      const Vector probability = constant(x.p[r * x.stride + j]);
      for (std::int64_t v = 0; v < V; ++v) sum[r][v] = hn::MulAdd(probability, value[v], sum[r][v]);
    }
  }
  for (std::int64_t r = 0; r < R; ++r)
    for (std::int64_t v = 0; v < V; ++v) store(sum[r][v], sums + r * x.head_dim + at(v), count(v));
}

/// sums[R rows, D] += p x values. sums: of the first row.
template <std::int64_t R, typename T>
HWY_INLINE void add_values(const Weighted<T>& x, float* sums) {
  const std::int64_t vectors = x.head_dim / lanes(), left = x.head_dim % lanes();
  for_each_group<kVectors>(vectors, [&](auto together, std::int64_t v) HWY_ATTR {
    add_columns<R, together()>(x, v * lanes(), lanes(), sums);
  });
  if (left > 0) add_columns<R, 1>(x, vectors * lanes(), left, sums);
}

void values_all(const QueryBlock& block, const CachedHead& head, const float* p, float* sums) {
  constexpr std::int64_t kPiece = 64;  // positions whose values stay near the core for all rows
  const std::int64_t head_dim = head.head_dim, columns = block.columns;
  std::fill_n(sums, block.rows() * head_dim, 0.0f);
  with_type(head.dtype, [&]<typename T>(T*) HWY_ATTR {
    const T* values = static_cast<const T*>(head.values) + block.first_key * head_dim;
    const auto add_row = [&](std::int64_t row, std::int64_t begin, std::int64_t end) HWY_ATTR {
      if (begin >= end) return;
      add_values<1>(Weighted<T>{p + row * columns, columns, values, head_dim, begin, end},
                    sums + row * head_dim);
    };
    // What all rows see, if there is anything; before and after it a row adds what it sees itself.
    const std::int64_t common_end = block.seen(0);
    const std::int64_t common = std::min(block.hidden(block.positions - 1), common_end);
    for (std::int64_t row = 0; row < block.rows(); ++row)
      add_row(row, block.hidden(row / block.group), common);
    for (std::int64_t begin = common; begin < common_end; begin += kPiece) {
      const std::int64_t end = std::min(begin + kPiece, common_end);
      for_each_group<kRows>(block.rows(), [&](auto rows, std::int64_t row) HWY_ATTR {
        add_values<rows()>(Weighted<T>{p + row * columns, columns, values, head_dim, begin, end},
                           sums + row * head_dim);
      });
    }
    for (std::int64_t row = block.group; row < block.rows(); ++row)
      add_row(row, std::max(block.hidden(row / block.group), common_end),
              block.seen(row / block.group));
  });
}

void store_all(const CachedHead& head, std::int64_t first, std::int64_t count, const HeadRows& keys,
               const HeadRows& values) {
  const std::int64_t head_dim = head.head_dim;
  with_type(head.dtype, [&]<typename T>(T*) HWY_ATTR {
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t position = first + i;
      const T* key = static_cast<const T*>(keys.data) + i * keys.stride;
      T* to = static_cast<T*>(head.keys) + position / kTile * kTile * head_dim + position % kTile;
      for (std::int64_t d = 0; d < head_dim; ++d) to[d * kTile] = key[d];
      std::copy_n(static_cast<const T*>(values.data) + i * values.stride, head_dim,
                  static_cast<T*>(head.values) + position * head_dim);
    }
  });
}

}  // namespace troupe::tensor::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::tensor {
namespace {

HWY_EXPORT(scores_all);
HWY_EXPORT(values_all);
HWY_EXPORT(store_all);

}  // namespace

void store_in_cache(const CachedHead& head, std::int64_t first, std::int64_t count,
                    const HeadRows& keys, const HeadRows& values) {
  HWY_DYNAMIC_DISPATCH(store_all)(head, first, count, keys, values);
}

void cached_scores(const QueryBlock& block, const CachedHead& head, const float* q, float* scores) {
  HWY_DYNAMIC_DISPATCH(scores_all)(block, head, q, scores);
}

void cached_values(const QueryBlock& block, const CachedHead& head, const float* p, float* sums) {
  HWY_DYNAMIC_DISPATCH(values_all)(block, head, p, sums);
}

}  // namespace troupe::tensor
#endif
