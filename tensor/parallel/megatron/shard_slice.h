#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "tensor/device/device.h"

namespace troupe::tensor {

/// A part of a parameter: `size` indices from `begin` of one dim, everything of the other. Values,
/// so that a checkpoint can be written and read for any number of shards.
struct ShardSlice {
  int dim = 0;
  std::int64_t begin = 0;
  std::int64_t size = 0;
  bool operator==(const ShardSlice&) const = default;
};

/// The shard's even part of a dim of `whole` indices; `what` names them in the Error{manifest} for
/// a number that `shards` does not divide.
ShardSlice even_slice(std::string_view what, int dim, std::int64_t whole, int shards, int shard);

struct HeadCounts {
  std::int64_t heads = 0;     // H
  std::int64_t kv_heads = 0;  // K, divides H
  std::int64_t head_dim = 0;  // D
};

/// Number of consecutive shards that hold the same key-value head: 1 unless there are more shards
/// than heads.
int kv_copies(std::int64_t kv_heads, int shards);
/// The rows of q_proj[H*D, C], k_proj[K*D, C] and v_proj[K*D, C] that a shard holds: whole heads,
/// and for each query head the key-value head that it uses. Throws Error{manifest} unless `shards`
/// divides H, and divides K or is a multiple of K.
std::array<ShardSlice, 3> qkv_slices(const HeadCounts& counts, int shards, int shard);
/// These rows in the joined parameter, where q, k and v lie one below the other. A shard's part
/// holds them in that order: [q_r | k_r | v_r].
std::array<ShardSlice, 3> joined_qkv_slices(const HeadCounts& counts, int shards, int shard);
/// The rows of gate_proj and up_proj in their joined parameter[2F, C]; a shard's part is
/// [gate_r | up_r]. Throws Error{manifest} if `shards` does not divide F.
std::array<ShardSlice, 2> joined_gate_up_slices(std::int64_t feed_forward, int shards, int shard);

/// part = the slices of `whole`, one after the other along their dim, and back; both matrices of
/// one dtype. All shards' parts together hold everything of the whole.
void copy_to_shard(Stream& stream, const Tensor& whole, std::span<const ShardSlice> slices,
                   const Tensor& part);
void copy_from_shard(Stream& stream, const Tensor& part, std::span<const ShardSlice> slices,
                     const Tensor& whole);

}  // namespace troupe::tensor
