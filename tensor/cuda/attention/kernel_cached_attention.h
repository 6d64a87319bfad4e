#pragma once

#include "tensor/cuda/kernels/attention/cached_attention_kernels.h"
#include "tensor/device/attention.h"

namespace troupe::tensor::cuda {

/// Attention over a cache by kernels of our own, for head sizes up to kMostHeadDim. The cache of a
/// layer holds keys [B, K, N, W], then values, where W is the head size rounded up so that a row is
/// a multiple of 16 bytes. Compiled for a GPU, and for the emulated grid of the tests.
class KernelCachedAttention final : public CachedAttention {
 public:
  /// Throws Error for a shape that has no meaning or no kernel.
  explicit KernelCachedAttention(const CachedAttentionShape& shape);

  std::int64_t cache_elements() const override;
  std::size_t scratch_bytes() const override;
  void set_scratch(void* scratch) override { scratch_ = scratch; }
  void forward(Stream& stream, const Tensor& qkv, const CachedTokens& tokens, const Tensor& cache,
               const Tensor& out) override;

 private:
  CachedAttentionArguments arguments(std::int64_t rows) const;

  const CachedAttentionShape shape_;
  void* scratch_ = nullptr;
};

}  // namespace troupe::tensor::cuda
