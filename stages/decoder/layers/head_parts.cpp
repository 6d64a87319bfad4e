#include "stages/decoder/layers/head_parts.h"

#include "stages/decoder/layers/head_loss.h"

namespace troupe::stages {

using tensor::Tensor;

HeadParts head_parts(const ModelConfig& model, std::int64_t tokens, int shards) {
  if (model.value_head) return {.block = tokens, .rows = tokens};
  constexpr std::int64_t kMostBytes = std::int64_t{256} << 20;
  const std::int64_t row_bytes =
      vocab_rows(model.vocab_size, shards) * static_cast<std::int64_t>(sizeof(float));
  // Whole groups of shards, because a layer's rows may be divided among them.
  const std::int64_t fitting = std::max<std::int64_t>(1, kMostBytes / row_bytes / shards) * shards;
  HeadParts parts{.block = std::min(tokens, fitting)};
  parts.rows = std::min(tokens, model.loss_chunk > 0 ? model.loss_chunk : parts.block);
  parts.are_divided = parts.rows < tokens;
  if (parts.are_divided) parts.rows = std::min(parts.rows, parts.block);
  return parts;
}

void HeadParts::add_row_counts(std::int64_t tokens, std::vector<std::int64_t>& counts) const {
  for_each_part({0, tokens}, block, [&](const RowRange& part) { counts.push_back(part.count); });
  if (are_divided) for_each(tokens, [&](const RowRange& part) { counts.push_back(part.count); });
}

// Of a head in parts: forwards compute the gradient of their input as soon as they have a part's
// logits, and weight gradients compute the logits again. Neither keeps what is as wide as the
// vocabulary. What runs on the stream of the other pass is `again_`'s.

void HeadLoss::forward_in_parts(const HeadWeights& weights, const HeadActivations& kept) const {
  tensor::Stream& stream = streams_.forward();
  // One shard's loss computes the logits itself, unless the caller wants them.
  if (parallel_.size == 1 && !kept.logits) return;
  const Tensor& x = all_tokens(kept.norm, kept.scratch.forward.input);
  parts_.for_each(x.shape[0], [&](const RowRange& part) {
    const Tensor logits = logits_of(kept, part);
    projection_->product(stream, part_of(x, part), weights.packed, {}, logits);
    cap(stream, logits);
    if (parallel_.size > 1) loss_->local_max(stream, logits, sums_of(kept, part));
  });
}

void HeadLoss::sums_in_parts(const HeadWeights& weights, const HeadActivations& kept) const {
  tensor::Stream& stream = streams_.forward();
  const Tensor& x = all_tokens(kept.norm, kept.scratch.forward.input);
  parts_.for_each(x.shape[0], [&](const RowRange& part) {
    const Tensor logits = logits_of(kept, part);
    if (!kept.logits) {
      projection_->product(stream, part_of(x, part), weights.packed, {}, logits);
      cap(stream, logits);
    }
    loss_->local_sums(stream, logits, part_of(kept.targets, part), sums_of(kept, part));
  });
}

void HeadLoss::loss_in_parts(const HeadWeights& weights, const HeadActivations& kept,
                             const Tensor& sum, const Tensor& token_losses) const {
  tensor::Stream& stream = streams_.forward();
  const HeadScratch& scratch = kept.scratch;
  const Tensor& x = all_tokens(kept.norm, scratch.forward.input);
  const Tensor& losses = token_losses ? token_losses : scratch.losses;
  const bool trains = static_cast<bool>(kept.dx);
  // The sums of several shards say all that a loss without a gradient is made of.
  const bool has_logits = kept.logits || (parallel_.size > 1 && !trains);
  parts_.for_each(x.shape[0], [&](const RowRange& part) {
    const Tensor logits = logits_of(kept, part);
    const Tensor gradient = trains ? part_of(scratch.gradient, {0, part.count}) : Tensor{};
    if (!has_logits) {
      projection_->product(stream, part_of(x, part), weights.packed, {}, logits);
      cap(stream, logits);
    }
    loss_of_part(stream, kept, part, logits, scratch.capped, gradient, part_of(losses, part),
                 scratch.unread);
    if (trains) again_->input_gradient(stream, gradient, weights.packed, part_of(kept.dx, part));
  });
  ops_.sum_losses(stream, losses, sum);
}

void HeadLoss::weight_gradient_in_parts(const HeadWeights& weights, const HeadActivations& kept,
                                        const HeadParameters& gradients,
                                        tensor::Gradient which) const {
  tensor::Stream& stream = streams_.backward();
  const HeadScratch& scratch = kept.scratch;
  const Tensor& x = all_tokens(kept.norm, scratch.backward.input);
  for_each_part({0, x.shape[0]}, parts_.block, [&](const RowRange& block) {
    for_each_part({0, block.count}, parts_.rows, [&](const RowRange& in_block) {
      const RowRange part{block.first + in_block.first, in_block.count};
      const Tensor gradient = part_of(scratch.block_gradient, in_block);
      const Tensor logits =
          scratch.block_logits ? part_of(scratch.block_logits, {0, part.count}) : gradient;
      again_->product(stream, part_of(x, part), weights.packed, {}, logits);
      cap(stream, logits);
      loss_of_part(stream, kept, part, logits, scratch.capped_again, gradient, {},
                   scratch.unread_again);
    });
    projection_->weight_gradient(stream, part_of(scratch.block_gradient, {0, block.count}),
                                 part_of(x, block), gradients.projection, {}, which);
    which = tensor::Gradient::added;
  });
}

void HeadLoss::loss_of_part(tensor::Stream& stream, const HeadActivations& kept,
                            const RowRange& part, const Tensor& logits, const Tensor& capped,
                            const Tensor& gradient, const Tensor& token_losses,
                            const UnreadLoss& unread) const {
  const Tensor targets = part_of(kept.targets, part);
  const float scale = gradient_scale(kept);
  const Tensor copy = part_of(capped, {0, part.count});
  if (parallel_.size == 1) {
    ops_.cross_entropy(stream, logits, targets, scale, unread.loss, gradient, token_losses);
  } else {
    const tensor::CrossEntropyScratch of_all = sums_of(kept, part);
    if (gradient) {
      Tensor sums = unread.sums;
      sums.shape = {loss_->sums_rows(), part.count};
      keep_capped(stream, logits, copy);
      loss_->local_sums(stream, logits, targets, {.max = of_all.max, .sums = sums});
    }
    loss_->finish(stream, logits, targets, of_all, scale, unread.loss, gradient, token_losses);
  }
  if (gradient) cap_gradient(stream, all_tokens(logits, copy), gradient);
}

Tensor HeadLoss::logits_of(const HeadActivations& kept, const RowRange& part) const {
  return kept.logits ? part_of(kept.logits, part) : part_of(kept.scratch.logits, {0, part.count});
}

tensor::CrossEntropyScratch HeadLoss::sums_of(const HeadActivations& kept,
                                              const RowRange& part) const {
  const std::int64_t rows = loss_->sums_rows();
  Tensor sums = part_of(kept.loss.sums, {rows * part.first, rows * part.count});
  sums.shape = {rows, part.count};
  return {.max = part_of(kept.loss.max, part), .sums = sums};
}

}  // namespace troupe::stages
