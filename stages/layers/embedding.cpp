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
    : shape_(spec),
      ops_(device.ops()),
      streams_(streams),
      table_(std::make_unique<tensor::VocabParallelEmbedding>(
          device,
          tensor::EmbeddingShape{.tokens = shape_.T,
                                 .vocabulary = shape_.V * spec.parallel.size,
                                 .channels = shape_.C},
          spec.parallel)) {}

EmbeddingActivations Embedding::lay_out_activations(Arena& kept) const {
  return {.ids = kept.take(DType::i32, {shape_.T})};
}

void Embedding::forward(std::span<const std::int32_t> ids, const Tensor& table,
                        const EmbeddingActivations& kept, const GatheredTokens& gathered,
                        const Tensor& x) const {
  ops_.copy(streams_.forward(), host_tokens(ids), kept.ids);
  table_->lookup(streams_.forward(), kept.ids, table, all_tokens(x, gathered.output));
}

std::unique_ptr<tensor::Work> Embedding::reduce_output(const GatheredTokens& gathered,
                                                       const Tensor& x) const {
  return table_->reduce_output(streams_.forward(), all_tokens(x, gathered.output), x);
}

std::unique_ptr<tensor::Work> Embedding::gather_gradient(const Tensor& dx,
                                                         const GatheredTokens& gathered) const {
  return table_->gather_output_gradient(streams_.backward(), dx, gathered.output);
}

void Embedding::weight_gradient(const Tensor& dx, const EmbeddingActivations& kept,
                                const GatheredTokens& gathered, const Tensor& table_gradient,
                                tensor::Gradient which) const {
  table_->weight_gradient(streams_.backward(), kept.ids, all_tokens(dx, gathered.output),
                          table_gradient, which);
}

}  // namespace troupe::stages
