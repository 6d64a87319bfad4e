#include "tensor/cuda/kernel_cached_attention.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "tensor/cuda/kernels/attention_kernels.h"
#include "tensor/cuda/op_arguments.h"
#include "tensor/error.h"

namespace troupe::tensor::cuda {
namespace {

CachedAttentionShape checked(const CachedAttentionShape& s) {
  check(s);
  if (s.head_dim > kMostHeadDim) {
    throw Error(ErrorKind::manifest,
                fmt::format("head size {}; attention on a GPU has kernels for head sizes up to {}",
                            s.head_dim, kMostHeadDim));
  }
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

std::int64_t KernelCachedAttention::row_width() const {
  constexpr std::size_t kRowAlignment = 16;
  const auto elements = static_cast<std::int64_t>(kRowAlignment / size_of(shape_.dtype));
  return (shape_.head_dim + elements - 1) / elements * elements;
}

std::int64_t KernelCachedAttention::cache_elements() const {
  return 2 * shape_.sequences * shape_.kv_heads * shape_.capacity * row_width();
}

void KernelCachedAttention::forward(Stream& stream, const Tensor& qkv, const CachedTokens& tokens,
                                    const Tensor& cache, const Tensor& out) {
  check(shape_, tokens);
  const std::int64_t rows = tokens.sequences.num_elements();
  const std::int64_t all = shape_.heads + 2 * shape_.kv_heads;
  TROUPE_ASSERT(qkv.dtype == shape_.dtype && qkv.num_elements() == rows * all * shape_.head_dim);
  TROUPE_ASSERT(cache.dtype == shape_.dtype && cache.num_elements() == cache_elements());
  TROUPE_ASSERT(out.dtype == shape_.dtype &&
                out.num_elements() == rows * shape_.heads * shape_.head_dim);
  const CachedAttentionArguments x{
      .rows = static_cast<int>(rows),
      .sequences = static_cast<int>(shape_.sequences),
      .capacity = static_cast<int>(shape_.capacity),
      .heads = static_cast<int>(shape_.heads),
      .kv_heads = static_cast<int>(shape_.kv_heads),
      .head_dim = static_cast<int>(shape_.head_dim),
      .row_width = static_cast<int>(row_width()),
      .scale = static_cast<float>(1 / std::sqrt(static_cast<double>(shape_.head_dim))),
      .row_sequences = tokens.sequences.as<std::int32_t>(),
      .row_positions = tokens.positions.as<std::int32_t>(),
      .cos = tokens.cos.as<float>(),
      .sin = tokens.sin.as<float>(),
      .qkv = qkv.data,
      .cache = cache.data,
      .out = out.data};
  launch_store_in_cache(shape_.dtype, x, handle_of(stream));
  launch_cached_attention(shape_.dtype, x, handle_of(stream));
}

}  // namespace troupe::tensor::cuda
