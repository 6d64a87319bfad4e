#include "tensor/parallel/megatron/shard_slice.h"

#include <fmt/format.h>

#include <algorithm>

#include "tensor/device/ops.h"
#include "tensor/errors/error.h"
#include "tensor/parallel/division.h"

namespace troupe::tensor {
namespace {

/// Copies `size` rows or columns between two matrices.
void copy_block(Stream& stream, int dim, const Tensor& src, std::int64_t from, const Tensor& dst,
                std::int64_t to, std::int64_t size) {
  TROUPE_ASSERT(src.shape.rank() == 2 && dst.shape.rank() == 2);
  TROUPE_ASSERT(src.shape[1 - dim] == dst.shape[1 - dim]);
  TROUPE_ASSERT(from >= 0 && from + size <= src.shape[dim]);
  TROUPE_ASSERT(to >= 0 && to + size <= dst.shape[dim]);
  Ops& ops = stream.device().ops();
  if (dim == 1) return ops.copy_columns(stream, src, from, dst, to, size);
  ops.copy(stream, row_view(src, from, size), row_view(dst, to, size));
}

}  // namespace

ShardSlice even_slice(std::string_view what, int dim, std::int64_t whole, int shards, int shard) {
  const std::int64_t size = even_part(what, whole, shards);
  return {.dim = dim, .begin = shard * size, .size = size};
}

int kv_copies(std::int64_t kv_heads, int shards) {
  if (kv_heads % shards != 0 && shards % kv_heads != 0) {
    throw Error(ErrorKind::manifest,
                fmt::format("{} key-value heads cannot be divided among {} shards, nor can each "
                            "head be on the same number of shards; use a number of shards that "
                            "divides the heads or is a multiple of them",
                            kv_heads, shards));
  }
  return static_cast<int>(std::max<std::int64_t>(1, shards / kv_heads));
}

std::array<ShardSlice, 3> qkv_slices(const HeadCounts& counts, int shards, int shard) {
  const std::int64_t heads = even_part("query heads", counts.heads, shards);
  const int copies = kv_copies(counts.kv_heads, shards);
  const std::int64_t kv_heads = copies > 1 ? 1 : counts.kv_heads / shards;
  const ShardSlice kv{.begin = shard / copies * kv_heads * counts.head_dim,
                      .size = kv_heads * counts.head_dim};
  return {{{.begin = shard * heads * counts.head_dim, .size = heads * counts.head_dim}, kv, kv}};
}

std::array<ShardSlice, 3> joined_qkv_slices(const HeadCounts& counts, int shards, int shard) {
  auto slices = qkv_slices(counts, shards, shard);
  slices[1].begin += counts.heads * counts.head_dim;
  slices[2].begin += (counts.heads + counts.kv_heads) * counts.head_dim;
  return slices;
}

std::array<ShardSlice, 2> joined_gate_up_slices(std::int64_t feed_forward, int shards, int shard) {
  const ShardSlice gate =
      even_slice("channels of the feed-forward layer", 0, feed_forward, shards, shard);
  return {{gate, {.begin = gate.begin + feed_forward, .size = gate.size}}};
}

void copy_to_shard(Stream& stream, const Tensor& whole, std::span<const ShardSlice> slices,
                   const Tensor& part) {
  std::int64_t position = 0;
  for (const ShardSlice& slice : slices) {
    copy_block(stream, slice.dim, whole, slice.begin, part, position, slice.size);
    position += slice.size;
  }
}

void copy_from_shard(Stream& stream, const Tensor& part, std::span<const ShardSlice> slices,
                     const Tensor& whole) {
  std::int64_t position = 0;
  for (const ShardSlice& slice : slices) {
    copy_block(stream, slice.dim, part, position, whole, slice.begin, slice.size);
    position += slice.size;
  }
}

}  // namespace troupe::tensor
