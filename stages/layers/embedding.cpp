#include "stages/layers/embedding.h"

namespace troupe::stages {

using tensor::DType;
using tensor::Tensor;

Tensor host_tokens(std::span<const std::int32_t> tokens) {
  return {const_cast<std::int32_t*>(tokens.data()),
          DType::i32,
          {static_cast<std::int64_t>(tokens.size())}};
}

Embedding::Embedding(const LayerSpec& spec, tensor::Device& device, const Streams& streams)
    : shape_(spec), ops_(device.ops()), streams_(streams) {}

EmbeddingActivations Embedding::lay_out_activations(Arena& kept) const {
  return {.ids = kept.take(DType::i32, {shape_.T})};
}

void Embedding::forward(std::span<const std::int32_t> ids, const Tensor& table,
                        const EmbeddingActivations& kept, const Tensor& x) const {
  ops_.copy(streams_.forward(), host_tokens(ids), kept.ids);
  ops_.embedding(streams_.forward(), kept.ids, table, x);
}

void Embedding::weight_gradient(const Tensor& dx, const EmbeddingActivations& kept,
                                const Tensor& table_gradient, tensor::Gradient which) const {
  // The whole table is cleared, because most rows have no token in the microbatch.
  if (which == tensor::Gradient::first) ops_.fill_zero(streams_.backward(), table_gradient);
  ops_.embedding_backward(streams_.backward(), kept.ids, dx, table_gradient);
}

}  // namespace troupe::stages
