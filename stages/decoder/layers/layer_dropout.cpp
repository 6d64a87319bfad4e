#include "stages/decoder/layers/layer_dropout.h"

namespace troupe::stages {

using tensor::Random;

namespace {

std::uint64_t number(std::int64_t value) {
  return static_cast<std::uint64_t>(value);
}

}  // namespace

LayerDropout::LayerDropout(const LayerSpec& spec)
    : shape_(spec),
      hidden_p_(static_cast<float>(spec.model.hidden_dropout)),
      attention_p_(static_cast<float>(spec.model.attention_dropout)),
      seq_len_(spec.seq_len),
      global_samples_(spec.global_samples),
      shard_(spec.parallel.splits_tokens() ? spec.parallel.shard : 0),
      embedding_(spec.seed, "dropout.embedding"),
      attention_(spec.seed, "dropout.attention"),
      probabilities_(spec.seed, "dropout.attention.probabilities"),
      feed_forward_(spec.seed, "dropout.feed_forward") {}

HiddenDropout LayerDropout::hidden(const Random& random, const BatchPlace& place,
                                   std::int64_t tokens) const {
  const std::int64_t first = place.first_sample * seq_len_ + shard_ * shape_.own_tokens(tokens);
  return {.dropout = {hidden_p_, random.part(number(place.step)).key()},
          .tokens = {.columns = shape_.C, .first_row = first}};
}

HiddenDropout LayerDropout::of_embedding(const BatchPlace& place, std::int64_t tokens) const {
  return hidden(embedding_, place, tokens);
}

BlockDropout LayerDropout::of_block(int layer, const BatchPlace& place, std::int64_t tokens) const {
  const std::uint64_t l = number(layer);
  return {.attention = hidden(attention_.part(l), place, tokens),
          .feed_forward = hidden(feed_forward_.part(l), place, tokens),
          .probabilities = {
              .dropout = {attention_p_, probabilities_.part(l).part(number(place.step)).key()},
              .sequences = global_samples_,
              .first_sequence = place.first_sample}};
}

const tensor::Tensor& gradient_before(const HiddenDropout& dropout, tensor::Ops& ops,
                                      tensor::Stream& stream, const tensor::Tensor& dy,
                                      const tensor::Tensor& dropped) {
  if (!dropout.drops()) return dy;
  ops.dropout(stream, dropout.dropout, dropout.tokens, dy, dropped);
  return dropped;
}

}  // namespace troupe::stages
