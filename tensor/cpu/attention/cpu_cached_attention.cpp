#include "tensor/cpu/attention/cpu_cached_attention.h"

#include <omp.h>

#include <algorithm>
#include <utility>

#include "tensor/cpu/attention/attention_scores.h"
#include "tensor/cpu/products/product.h"
#include "tensor/errors/error.h"

namespace troupe::tensor {
namespace {

std::size_t floats(std::int64_t count) {
  return aligned(static_cast<std::size_t>(count) * sizeof(float));
}

}  // namespace

CpuCachedAttention::CpuCachedAttention(const CachedAttentionShape& shape, int threads)
    : shape_(check(shape)), threads_(threads) {
  blocks_.reserve(static_cast<std::size_t>(shape.rows));
}

std::int64_t CpuCachedAttention::block_positions() const {
  constexpr std::int64_t kRows = 32;  // of a block: enough to use what is read of the cache often
  return std::max<std::int64_t>(1, kRows / group());
}

std::int64_t CpuCachedAttention::padded_capacity() const {
  return CachedHead::tiles(shape_.capacity) * CachedHead::kTile;
}

std::int64_t CpuCachedAttention::head_elements() const {
  return 2 * padded_capacity() * shape_.head_dim;
}

std::int64_t CpuCachedAttention::cache_elements() const {
  return shape_.sequences * shape_.kv_heads * head_elements();
}

std::size_t CpuCachedAttention::workspace_bytes() const {
  const std::int64_t rows = block_positions() * group(), d = shape_.head_dim;
  return floats(rows * padded_capacity()) + 2 * floats(rows * d) + floats(rows) +
         floats(block_positions() * d);
}

std::size_t CpuCachedAttention::scratch_bytes() const {
  return static_cast<std::size_t>(threads_) * workspace_bytes();
}

CpuCachedAttention::Workspace CpuCachedAttention::workspace(int thread) const {
  std::byte* next = scratch_ + static_cast<std::size_t>(thread) * workspace_bytes();
  const auto take = [&next](std::int64_t count) {
    return reinterpret_cast<float*>(std::exchange(next, next + floats(count)));
  };
  const std::int64_t rows = block_positions() * group(), d = shape_.head_dim;
  Workspace memory{};
  memory.scores = take(rows * padded_capacity());
  memory.queries = take(rows * d);
  memory.sums = take(rows * d);
  memory.factors = take(rows);
  memory.keys = take(block_positions() * d);
  return memory;
}

void CpuCachedAttention::find_blocks(const CachedTokens& tokens) {
  const auto* sequences = tokens.sequences.as<std::int32_t>();
  const auto* positions = tokens.positions.as<std::int32_t>();
  const std::int64_t most = block_positions();
  blocks_.clear();
  for (std::int64_t row = 0; row < tokens.sequences.num_elements(); ++row) {
    const std::int32_t sequence = sequences[row], position = positions[row];
    TROUPE_ASSERT(sequence >= -1 && sequence < shape_.sequences);
    TROUPE_ASSERT(sequence < 0 || (position >= 0 && position < shape_.capacity));
    if (!blocks_.empty()) {
      Block& last = blocks_.back();
      const bool follows = sequence < 0 || position == last.position + last.count;
      if (sequence == last.sequence && follows && last.count < most) {
        ++last.count;
        continue;
      }
    }
    blocks_.push_back({.row = row, .count = 1, .sequence = sequence, .position = position});
  }
}

void CpuCachedAttention::forward(Stream&, const Tensor& qkv, const CachedTokens& tokens,
                                 const Tensor& cache, const Tensor& out) {
  check(shape_, tokens, qkv, out);
  TROUPE_ASSERT(cache.dtype == shape_.dtype && cache.num_elements() == cache_elements());
  find_blocks(tokens);
  const std::int64_t kv_heads = shape_.kv_heads;
  const auto jobs = static_cast<std::int64_t>(blocks_.size()) * kv_heads;
#pragma omp parallel num_threads(threads_)
  {
    const Workspace memory = workspace(omp_get_thread_num());
    const auto block_of = [&](std::int64_t job) -> const Block& {
      return blocks_[static_cast<std::size_t>(job / kv_heads)];
    };
#pragma omp for schedule(static)
    for (std::int64_t job = 0; job < jobs; ++job)
      store(block_of(job), job % kv_heads, qkv, tokens, cache, memory);
      // Later blocks of a sequence take longer than earlier ones.
#pragma omp for schedule(dynamic)
    for (std::int64_t job = 0; job < jobs; ++job)
      attend(block_of(job), job % kv_heads, qkv, tokens, cache, out, memory);
  }
}

CachedHead CpuCachedAttention::head_of(const Tensor& cache, const Block& block,
                                       std::int64_t kv_head) const {
  const HeadRows all{cache.data, shape_.dtype, 0};
  const std::int64_t first = (block.sequence * shape_.kv_heads + kv_head) * head_elements();
  return {.keys = all.from_element(first).data,
          .values = all.from_element(first + head_elements() / 2).data,
          .dtype = shape_.dtype,
          .head_dim = shape_.head_dim};
}

HeadRows CpuCachedAttention::heads_of(const Tensor& qkv, const Block& block,
                                      std::int64_t head) const {
  const HeadRows rows{qkv.data, shape_.dtype, shape_.columns()};
  return rows.from_position(block.row).from_element(head * shape_.head_dim);
}

void CpuCachedAttention::place(const Block& block, std::int64_t heads, const CachedTokens& tokens,
                               const HeadRows& from, const HeadRows& to) const {
  const QueryBlock all{.positions = block.count, .group = heads, .head_dim = shape_.head_dim};
  if (!tokens.cos) return copy_heads(all, from, to);
  const std::int64_t pairs = tokens.cos.num_elements() / tokens.sequences.num_elements();
  const std::int64_t angle = block.row * pairs;
  rotate_heads(all, {tokens.cos.as<float>() + angle, tokens.sin.as<float>() + angle, 2 * pairs},
               Direction::forward, from, to);
}

void CpuCachedAttention::store(const Block& block, std::int64_t kv_head, const Tensor& qkv,
                               const CachedTokens& tokens, const Tensor& cache,
                               const Workspace& memory) const {
  if (block.sequence < 0) return;
  const HeadRows keys{memory.keys, shape_.dtype, shape_.head_dim};
  place(block, 1, tokens, heads_of(qkv, block, shape_.heads + kv_head), keys);
  store_in_cache(head_of(cache, block, kv_head), block.position, block.count, keys,
                 heads_of(qkv, block, shape_.heads + shape_.kv_heads + kv_head));
}

void CpuCachedAttention::attend(const Block& block, std::int64_t kv_head, const Tensor& qkv,
                                const CachedTokens& tokens, const Tensor& cache, const Tensor& out,
                                const Workspace& memory) const {
  const std::int64_t d = shape_.head_dim, first_head = kv_head * group();
  const HeadRows to =
      HeadRows{out.data, shape_.dtype, shape_.heads * d}.from_position(block.row).from_element(
          first_head * d);
  const std::int64_t end = block.position + block.count;
  const std::int64_t hidden =  // positions that no row sees, in whole tiles
      shape_.window > 0 ? std::max<std::int64_t>(0, block.position + 1 - shape_.window) : 0;
  const std::int64_t first_key = hidden / CachedHead::kTile * CachedHead::kTile;
  const QueryBlock rows{.first = block.position,
                        .positions = block.count,
                        .group = group(),
                        .head_dim = d,
                        .first_key = first_key,
                        .columns = CachedHead::tiles(end) * CachedHead::kTile - first_key,
                        .window = shape_.window};
  if (block.sequence < 0) {
    std::fill_n(memory.sums, rows.rows() * d, 0.0f);
    std::fill_n(memory.factors, rows.rows(), 0.0f);
    return scale_heads(rows, memory.sums, memory.factors, to);
  }
  place(block, group(), tokens, heads_of(qkv, block, first_head),
        {memory.queries, DType::f32, group() * d});
  const CachedHead head = head_of(cache, block, kv_head);
  cached_scores(rows, head, memory.queries, memory.scores);
  const float scale = score_scale(shape_.scale, d);
  if (shape_.cap > 0) cap_block(rows, scale, shape_.cap, memory.scores);
  softmax_block(rows, {.scale = shape_.cap > 0 ? 1.0f : scale,
                       .scores = memory.scores,
                       .dtype = DType::f32,
                       .probabilities = memory.scores,
                       .inverse_sum = memory.factors});
  cached_values(rows, head, memory.scores, memory.sums);
  scale_heads(rows, memory.sums, memory.factors, to);
}

}  // namespace troupe::tensor
