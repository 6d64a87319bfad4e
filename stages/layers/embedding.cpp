#include "stages/layers/embedding.h"

#include "tensor/parallel/row_view.h"

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
      seq_len_(spec.seq_len),
      first_token_(spec.parallel.splits_tokens() ? spec.parallel.shard * shape_.S : 0),
      is_divided_(spec.parallel.size > 1),
      ops_(device.ops()),
      streams_(streams),
      table_(std::make_unique<tensor::VocabParallelEmbedding>(
          device,
          tensor::EmbeddingShape{.tokens = shape_.T,
                                 .vocabulary = shape_.V * spec.parallel.size,
                                 .channels = shape_.C},
          spec.parallel)) {}

Tensor Embedding::lay_out_ids(Arena& kept) const {
  return kept.take(DType::i32, {shape_.T});
}

void Embedding::forward(std::span<const std::int32_t> ids, const EmbeddingParameters& weights,
                        const EmbeddingActivations& kept, const GatheredTokens& gathered,
                        const Tensor& x) const {
  ops_.copy(streams_.forward(), host_tokens(ids), kept.ids);
  table_->lookup(streams_.forward(), kept.ids, weights.table, all_tokens(x, gathered.output));
  if (!is_divided_) finish_output(weights, kept, x);
}

void Embedding::finish_output(const EmbeddingParameters& weights, const EmbeddingActivations& kept,
                              const Tensor& x) const {
  tensor::Stream& stream = streams_.forward();
  if (weights.positions) ops_.add_positions(stream, used(weights.positions), first_token_, x);
  if (kept.dropout.drops()) ops_.dropout(stream, kept.dropout.dropout, kept.dropout.tokens, x, x);
}

Tensor Embedding::used(const Tensor& positions) const {
  return tensor::row_view(positions, 0, seq_len_);
}

const Tensor& Embedding::before_dropout(const Tensor& dx, const EmbeddingActivations& kept) const {
  return gradient_before(kept.dropout, ops_, streams_.backward(), dx, kept.dropped);
}

std::unique_ptr<tensor::Work> Embedding::reduce_output(const GatheredTokens& gathered,
                                                       const Tensor& x) const {
  return table_->reduce_output(streams_.forward(), all_tokens(x, gathered.output), x);
}

std::unique_ptr<tensor::Work> Embedding::gather_gradient(const Tensor& dx,
                                                         const EmbeddingActivations& kept,
                                                         const GatheredTokens& gathered) const {
  return table_->gather_output_gradient(streams_.backward(), before_dropout(dx, kept),
                                        gathered.output);
}

void Embedding::weight_gradient(const Tensor& dx, const EmbeddingActivations& kept,
                                const GatheredTokens& gathered,
                                const EmbeddingParameters& gradients,
                                tensor::Gradient which) const {
  tensor::Stream& stream = streams_.backward();
  const Tensor& own = before_dropout(dx, kept);
  table_->weight_gradient(stream, kept.ids, all_tokens(own, gathered.output), gradients.table,
                          which);
  if (!gradients.positions) return;
  // All of it, because samples may be shorter than the table.
  if (which == tensor::Gradient::first) ops_.fill_zero(stream, gradients.positions);
  ops_.positions_backward(stream, own, first_token_, used(gradients.positions));
}

}  // namespace troupe::stages
