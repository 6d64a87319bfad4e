#include "stages/decoder/layers/embedding.h"

#include "stages/model/computation.h"
#include "tensor/errors/error.h"
#include "tensor/parallel/division.h"

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
      shard_(spec.parallel.splits_tokens() ? spec.parallel.shard : 0),
      first_token_(shard_ * shape_.S),
      is_divided_(spec.parallel.size > 1),
      scale_(static_cast<float>(embedding_scale(spec.model))),
      places_tokens_(traits_of(spec.model.kind).learns_positions &&
                     spec.documents != Documents::joined),
      ops_(device.ops()),
      streams_(streams),
      table_(std::make_unique<tensor::VocabParallelEmbedding>(
          device,
          tensor::EmbeddingShape{.tokens = shape_.T,
                                 .vocabulary = shape_.V * spec.parallel.size,
                                 .channels = shape_.C},
          spec.parallel)) {}

EmbeddingActivations Embedding::lay_out_activations(Arena& arena) const {
  EmbeddingActivations kept{.ids = arena.take(DType::i32, {shape_.T})};
  if (places_tokens_) kept.positions = arena.take(DType::i32, {shape_.T});
  return kept;
}

void Embedding::use_tokens(std::int64_t tokens, EmbeddingActivations& kept) const {
  use_rows(kept.ids, tokens);
  use_rows(kept.positions, tokens);
  use_rows(kept.dropped, shape_.own_tokens(tokens));
}

void Embedding::forward(std::span<const std::int32_t> ids, std::span<const std::int32_t> positions,
                        const EmbeddingParameters& weights, const EmbeddingActivations& kept,
                        const GatheredTokens& gathered, const Tensor& x) const {
  ops_.copy(streams_.forward(), host_tokens(ids), kept.ids);
  if (kept.positions) ops_.copy(streams_.forward(), host_tokens(positions), kept.positions);
  table_->lookup(streams_.forward(), kept.ids, weights.table, all_tokens(x, gathered.output));
  if (!is_divided_) finish_output(weights, kept, x);
}

void Embedding::finish_output(const EmbeddingParameters& weights, const EmbeddingActivations& kept,
                              const Tensor& x) const {
  tensor::Stream& stream = streams_.forward();
  if (scale_ != 1) ops_.scale(stream, x, scale_, x);
  if (kept.positions)
    ops_.add_rows(stream, weights.positions, own(kept.positions), x);
  else if (weights.positions)
    ops_.add_positions(stream, used(weights.positions), first_token_, x);
  if (kept.dropout.drops()) kept.dropout.apply(ops_, stream, x, x);
}

Tensor Embedding::used(const Tensor& positions) const {
  return tensor::row_view(positions, 0, seq_len_);
}

Tensor Embedding::own(const Tensor& tokens) const {
  const std::int64_t count = shape_.own_tokens(tokens.num_elements());
  return {tokens.as<std::int32_t>() + shard_ * count, tokens.dtype, {count}};
}

const Tensor& Embedding::before_dropout(const Tensor& dx, const EmbeddingActivations& kept) const {
  return gradient_before(kept.dropout, ops_, streams_.backward(), dx, kept.dropped);
}

const Tensor& Embedding::before_scale(const Tensor& dx, const EmbeddingActivations& kept) const {
  if (scale_ == 1) return dx;
  ops_.scale(streams_.backward(), dx, scale_, kept.dropped);
  return kept.dropped;
}

std::unique_ptr<tensor::Work> Embedding::reduce_output(const GatheredTokens& gathered,
                                                       const Tensor& x) const {
  return table_->reduce_output(streams_.forward(), all_tokens(x, gathered.output), x);
}

std::unique_ptr<tensor::Work> Embedding::gather_gradient(const Tensor& dx,
                                                         const EmbeddingActivations& kept,
                                                         const GatheredTokens& gathered) const {
  return table_->gather_output_gradient(
      streams_.backward(), before_scale(before_dropout(dx, kept), kept), gathered.output);
}

void Embedding::weight_gradient(const Tensor& dx, const EmbeddingActivations& kept,
                                const GatheredTokens& gathered,
                                const EmbeddingParameters& gradients,
                                tensor::Gradient which) const {
  tensor::Stream& stream = streams_.backward();
  const Tensor& dropped = before_dropout(dx, kept);
  TROUPE_ASSERT(scale_ == 1 || !gradients.positions);  // which are not scaled
  table_->weight_gradient(stream, kept.ids,
                          all_tokens(before_scale(dropped, kept), gathered.output), gradients.table,
                          which);
  if (!gradients.positions) return;
  // All of it, because samples may be shorter than the table.
  if (which == tensor::Gradient::first) ops_.fill_zero(stream, gradients.positions);
  if (kept.positions)
    ops_.embedding_backward(stream, own(kept.positions), dropped, gradients.positions);
  else
    ops_.positions_backward(stream, dropped, first_token_, used(gradients.positions));
}

}  // namespace troupe::stages
