#include "stages/decoder/layers/layer_dropout.h"

#include <algorithm>

#include "tensor/parallel/division.h"

namespace troupe::stages {

using tensor::Random;

namespace {

std::uint64_t number(std::int64_t value) {
  return static_cast<std::uint64_t>(value);
}

}  // namespace

LayerDropout::LayerDropout(const LayerSpec& spec)
    : shape_(spec),
      num_shards_(spec.parallel.size),
      number_(spec.parallel.shard),
      hidden_p_(static_cast<float>(spec.model.hidden_dropout)),
      attention_p_(static_cast<float>(spec.model.attention_dropout)),
      adapter_p_(spec.model.adapter ? static_cast<float>(spec.model.adapter->dropout) : 0),
      seq_len_(spec.seq_len),
      global_samples_(spec.global_samples),
      shard_(spec.parallel.splits_tokens() ? spec.parallel.shard : 0),
      embedding_(spec.seed, "dropout.embedding"),
      attention_(spec.seed, "dropout.attention"),
      probabilities_(spec.seed, "dropout.attention.probabilities"),
      feed_forward_(spec.seed, "dropout.feed_forward"),
      attention_adapter_(spec.seed, "dropout.adapter.attention"),
      feed_forward_adapter_(spec.seed, "dropout.adapter.feed_forward") {}

void HiddenDropout::apply(tensor::Ops& ops, tensor::Stream& stream, const tensor::Tensor& x,
                          const tensor::Tensor& y, const tensor::Tensor& residual) const {
  const std::int64_t rows = x.shape[0];
  for (std::int64_t row = 0, count = rows; row < rows; row += count) {
    const std::int64_t of_batch = before + row, runs = run > 0 ? of_batch / run : 0;
    if (run > 0) count = std::min(rows - row, (runs + 1) * run - of_batch);
    const auto part = [&](const tensor::Tensor& of) {
      return of ? tensor::row_view(of, row, count) : of;
    };
    ops.dropout(stream, dropout,
                {.columns = columns,
                 .first_row = first_row + of_batch + runs * gap,
                 .first_column = first_column},
                part(x), part(y), part(residual));
  }
}

/// Rows of the step between two lanes of the microbatch: below zero if one is completed beyond the
/// samples that it stands for, whose rows come next.
std::int64_t LayerDropout::gap_of(const BatchPlace& place) const {
  return place.lane_samples * seq_len_ - place.lane_rows;
}

HiddenDropout LayerDropout::hidden(const Random& random, const BatchPlace& place,
                                   std::int64_t tokens) const {
  return {.dropout = {hidden_p_, random.part(number(place.step)).key()},
          .columns = shape_.C,
          .first_row = place.first_sample * seq_len_,
          .run = place.lane_rows,
          .gap = gap_of(place),
          .before = shard_ * shape_.own_tokens(tokens)};
}

/// `width`: of the shard's columns of what the last product reads.
AdapterDropout LayerDropout::of_adapter(const Random& random, const BatchPlace& place,
                                        std::int64_t width) const {
  if (adapter_p_ == 0) return {};
  const Random of_step = random.part(number(place.step));
  HiddenDropout in{.dropout = {adapter_p_, of_step.part(0).key()},
                   .columns = shape_.C,
                   .first_row = place.first_sample * seq_len_,
                   .run = place.lane_rows,
                   .gap = gap_of(place)};
  HiddenDropout out = in;
  out.dropout.key = of_step.part(1).key();
  out.columns = num_shards_ * width;
  out.first_column = number_ * width;
  return {.in = in, .out = out};
}

HiddenDropout LayerDropout::of_embedding(const BatchPlace& place, std::int64_t tokens) const {
  return hidden(embedding_, place, tokens);
}

BlockDropout LayerDropout::of_block(int layer, const BatchPlace& place, std::int64_t tokens) const {
  const std::uint64_t l = number(layer);
  return {.attention = hidden(attention_.part(l), place, tokens),
          .feed_forward = hidden(feed_forward_.part(l), place, tokens),
          .attention_adapter = of_adapter(attention_adapter_.part(l), place, shape_.A),
          .feed_forward_adapter = of_adapter(feed_forward_adapter_.part(l), place, shape_.F),
          .probabilities = {
              .dropout = {attention_p_, probabilities_.part(l).part(number(place.step)).key()},
              .sequences = global_samples_,
              .first_sequence = place.first_sample,
              .run = place.lane_rows,
              .gap = gap_of(place)}};
}

const tensor::Tensor& gradient_before(const HiddenDropout& dropout, tensor::Ops& ops,
                                      tensor::Stream& stream, const tensor::Tensor& dy,
                                      const tensor::Tensor& dropped) {
  if (!dropout.drops()) return dy;
  dropout.apply(ops, stream, dy, dropped);
  return dropped;
}

}  // namespace troupe::stages
