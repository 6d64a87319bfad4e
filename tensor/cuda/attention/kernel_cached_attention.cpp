#include "tensor/cuda/attention/kernel_cached_attention.h"

#include <fmt/format.h>

#include <limits>

#include "tensor/cuda/attention/kernel_attention.h"
#include "tensor/cuda/runtime/kernel_stream.h"
#include "tensor/errors/error.h"

namespace troupe::tensor::cuda {
namespace {

const CachedAttentionShape& checked(const CachedAttentionShape& s) {
  check(s);
  check_head_dim(s.head_dim);
  constexpr std::int64_t kMost = std::numeric_limits<int>::max();  // a kernel's int counts them
  if (s.rows > kMost / s.heads || s.capacity > kMost || s.sequences > kMost) {
    throw Error(
        ErrorKind::manifest,
        fmt::format("attention of {} tokens with {} heads over {} sequences of {}; on a GPU "
                    "the product of the first two and the others must be at most {}",
                    s.rows, s.heads, s.sequences, s.capacity, kMost));
  }
  return s;
}

}  // namespace

KernelCachedAttention::KernelCachedAttention(const CachedAttentionShape& shape)
    : shape_(checked(shape)) {}

std::int64_t KernelCachedAttention::cache_elements() const {
  return 2 * shape_.sequences * shape_.kv_heads * shape_.capacity *
         padded_width(shape_.dtype, shape_.head_dim);
}

/// Without pointers.
CachedAttentionArguments KernelCachedAttention::arguments(std::int64_t rows) const {
  return {.rows = static_cast<int>(rows),
          .sequences = static_cast<int>(shape_.sequences),
          .capacity = static_cast<int>(shape_.capacity),
          .heads = static_cast<int>(shape_.heads),
          .kv_heads = static_cast<int>(shape_.kv_heads),
          .head_dim = static_cast<int>(shape_.head_dim),
          .row_width = static_cast<int>(padded_width(shape_.dtype, shape_.head_dim)),
          .window = shape_.window < shape_.capacity ? static_cast<int>(shape_.window) : 0,
          .scale = score_scale(shape_.scale, shape_.head_dim),
          .cap = shape_.cap};
}

std::size_t KernelCachedAttention::scratch_bytes() const {
  return cached_attention_scratch(arguments(shape_.rows));
}

void KernelCachedAttention::forward(Stream& stream, const Tensor& qkv, const CachedTokens& tokens,
                                    const Tensor& cache, const Tensor& out) {
  CachedAttentionArguments x = arguments(check(shape_, tokens, qkv, out));
  TROUPE_ASSERT(cache.dtype == shape_.dtype && cache.num_elements() == cache_elements());
  x.row_sequences = tokens.sequences.as<std::int32_t>();
  x.row_positions = tokens.positions.as<std::int32_t>();
  x.cos = tokens.cos.as<float>();
  x.sin = tokens.sin.as<float>();
  x.rotary_dim = static_cast<int>(2 * tokens.cos.num_elements() / x.rows);
  x.qkv = qkv.data;
  x.cache = cache.data;
  x.out = out.data;
  x.parts = static_cast<float*>(scratch_);
  launch_store_in_cache(shape_.dtype, x, handle_of(stream));
  launch_cached_attention(shape_.dtype, x, handle_of(stream));
}

}  // namespace troupe::tensor::cuda
