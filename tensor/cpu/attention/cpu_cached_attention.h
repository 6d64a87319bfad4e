#pragma once

#include <vector>

#include "tensor/cpu/attention/key_value_cache.h"
#include "tensor/device/attention.h"

namespace troupe::tensor {

/// Attention over a cache as one job per (block of rows of one sequence, key-value head), each in
/// one thread. The cache of a layer holds for each (sequence, key-value head) its keys, then its
/// values, for a capacity rounded up to whole tiles.
class CpuCachedAttention final : public CachedAttention {
 public:
  CpuCachedAttention(const CachedAttentionShape& shape, int threads);

  std::int64_t cache_elements() const override;
  std::size_t scratch_bytes() const override;
  void set_scratch(void* scratch) override { scratch_ = static_cast<std::byte*>(scratch); }
  void forward(Stream& stream, const Tensor& qkv, const CachedTokens& tokens, const Tensor& cache,
               const Tensor& out) override;

 private:
  /// Consecutive rows with consecutive positions of one sequence; of none if `sequence` is -1.
  struct Block {
    std::int64_t row = 0, count = 0;
    std::int32_t sequence = -1, position = 0;
  };
  /// Memory of one thread.
  struct Workspace {
    float* scores;   // [rows, padded capacity]
    float* queries;  // [rows, D]
    float* sums;     // [rows, D]
    float* factors;  // [rows]
    void* keys;      // [positions of a block, D] of dtype
  };

  std::int64_t group() const { return shape_.heads / shape_.kv_heads; }
  std::int64_t block_positions() const;
  std::int64_t padded_capacity() const;
  std::int64_t head_elements() const;  ///< of the cache of one sequence and head
  std::size_t workspace_bytes() const;
  Workspace workspace(int thread) const;

  void find_blocks(const CachedTokens& tokens);
  CachedHead head_of(const Tensor& cache, const Block& block, std::int64_t kv_head) const;
  /// Columns of the block's rows of qkv, from head `head` of all H + 2K on.
  HeadRows heads_of(const Tensor& qkv, const Block& block, std::int64_t head) const;
  /// to = from, rotated if so asked; `heads` of them at each of the block's positions.
  void place(const Block& block, std::int64_t heads, const CachedTokens& tokens,
             const HeadRows& from, const HeadRows& to) const;
  void store(const Block& block, std::int64_t kv_head, const Tensor& qkv,
             const CachedTokens& tokens, const Tensor& cache, const Workspace& memory) const;
  void attend(const Block& block, std::int64_t kv_head, const Tensor& qkv,
              const CachedTokens& tokens, const Tensor& cache, const Tensor& out,
              const Workspace& memory) const;

  const CachedAttentionShape shape_;
  const int threads_;
  std::byte* scratch_ = nullptr;
  std::vector<Block> blocks_;  ///< of the call under way
};

}  // namespace troupe::tensor
