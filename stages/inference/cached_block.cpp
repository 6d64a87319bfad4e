#include "stages/inference/cached_block.h"

#include "tensor/parallel/division.h"
#include "tensor/parallel/reduce_norm_gather.h"

namespace troupe::stages {

using tensor::Tensor;

namespace {

/// Less than this is summed over shards at once, by an all-reduce, in whose place two collectives
/// would only be one more to wait for.
constexpr std::int64_t kLeastDividedBytes = 64 << 10;

}  // namespace

tensor::LinearShape inference_shape(const InferenceLayers& spec) {
  const tensor::DType dtype = spec.layer.model.dtype;
  return {.rows = spec.layer.seq_len,
          .dtype = dtype,
          .output_dtype = dtype,
          .other_rows = {spec.few_rows},
          .gradients = false};
}

CachedActivations CachedActivations::rows(std::int64_t count) const {
  CachedActivations first = *this;
  auto& [attention, feed_forward] = first.sublayers;
  for (Tensor* x : {&first.norm, &first.mid, &attention.inner, &attention.hidden,
                    &feed_forward.inner, &feed_forward.hidden})
    use_rows(*x, count);
  use_rows(first.statistics, count);
  return first;
}

CachedBlock::CachedBlock(const InferenceLayers& spec, tensor::Device& device)
    : parallel_(spec.layer.parallel),
      one_shot_(spec.one_shot),
      eps_(static_cast<float>(traits_of(spec.layer.model.kind).has_layer_norm
                                  ? spec.layer.model.layer_norm_epsilon
                                  : spec.layer.model.rms_norm_eps)),
      shape_(spec.layer),
      traits_(traits_of(spec.layer.model.kind)),
      ops_(device.ops()),
      attention_(device.make_cached_attention({.rows = shape_.T,
                                               .sequences = spec.sequences,
                                               .capacity = spec.capacity,
                                               .heads = shape_.heads,
                                               .kv_heads = shape_.kv_heads,
                                               .head_dim = spec.layer.model.head_dim,
                                               .dtype = shape_.dtype})),
      products_(spec.layer, device, inference_shape(spec)) {}

CachedActivations CachedBlock::lay_out_activations(Arena& arena) const {
  const auto take = [&](std::int64_t width) { return arena.take(shape_.dtype, {shape_.T, width}); };
  CachedActivations memory;
  memory.norm = take(shape_.C);
  memory.statistics = products_.attention.norm.lay_out_statistics(arena);
  memory.mid = take(shape_.C);
  arena.overlay(
      [&] { memory.sublayers.attention = {.inner = take(shape_.Q), .hidden = take(shape_.A)}; },
      [&] { memory.sublayers.feed_forward = {.inner = take(shape_.H), .hidden = take(shape_.F)}; });
  return memory;
}

void CachedBlock::set_scratch(void* products, void* attention) const {
  products_.set_scratch({.forward = products});
  attention_->set_scratch(attention);
}

void CachedBlock::begin(tensor::Stream& stream, const BlockWeights& first,
                        const CachedActivations& memory, const Tensor& x) const {
  const CachedActivations rows = memory.rows(x.shape[0]);
  products_.attention.norm.forward(stream, first.attention.master.norm, x, rows.norm,
                                   rows.statistics);
}

void CachedBlock::forward(tensor::Stream& stream, const BlockWeights& weights,
                          const NormParameters* next, const tensor::CachedTokens& tokens,
                          const Tensor& cache, const CachedActivations& memory,
                          const Tensor& x) const {
  const CachedActivations rows = memory.rows(x.shape[0]);
  run(stream, Branch::attention, weights, &weights.feed_forward.master.norm, rows, x, rows.mid,
      [&](const CachedSublayer& own) {
        attention_->forward(stream, own.inner, tokens, cache, own.hidden);
      });
  run(stream, Branch::feed_forward, weights, next, rows, rows.mid, x,
      [&](const CachedSublayer& own) {
        (ops_.*traits_.activation)(stream, own.inner, own.hidden);
      });
}

template <typename Core>
void CachedBlock::run(tensor::Stream& stream, Branch branch, const BlockWeights& weights,
                      const NormParameters* next, const CachedActivations& memory, const Tensor& x,
                      const Tensor& y, const Core& core) const {
  const auto& [norm, in, out, inner] = products_[branch];
  const auto& [master, packed] = weights[branch];
  const CachedSublayer& own = memory.sublayers[branch];
  in->forward(stream, memory.norm, memory.norm, packed.in, master.in.bias, own.inner);
  core(own);
  if (sums_at_once(x.shape[0])) {
    out->product(stream, own.hidden, packed.out, one_shot_->part(y.dtype, y.shape));
    return sum_at_once(stream, master.out.bias, next, memory, x, y);
  }
  if (divides(x.shape[0])) {
    out->product(stream, own.hidden, packed.out, y);
    return sum_over_shards(stream, master.out.bias, next, memory, x, y);
  }
  out->forward(stream, packed.out,
               {.x = own.hidden, .y_partial = y, .y = y, .bias = master.out.bias, .residual = x});
  if (next) norm.forward(stream, *next, y, memory.norm, memory.statistics);
}

bool CachedBlock::sums_at_once(std::int64_t rows) const {
  return one_shot_ && tensor::OneShotNorm::serves(shape_.dtype, {rows, shape_.C});
}

/// From the shards' parts of a sum, which one_shot_ has, to the residual stream y after x and its
/// norm, both whole on every shard.
void CachedBlock::sum_at_once(tensor::Stream& stream, const Tensor& bias,
                              const NormParameters* next, const CachedActivations& memory,
                              const Tensor& x, const Tensor& y) const {
  one_shot_->run(stream, {.bias = bias,
                          .residual = x,
                          .sum = y,
                          .weight = next ? next->weight : Tensor{},
                          .shift = next ? next->bias : Tensor{},
                          .eps = eps_,
                          .mean = next ? memory.statistics.mean : Tensor{},
                          .rstd = next ? memory.statistics.rstd : Tensor{},
                          .normed = next ? memory.norm : Tensor{}});
}

bool CachedBlock::divides(std::int64_t rows) const {
  return parallel_.size > 1 && rows % parallel_.size == 0 &&
         rows * shape_.C * static_cast<std::int64_t>(size_of(shape_.dtype)) >= kLeastDividedBytes;
}

/// From the shards' parts of a sum, y, to the residual stream after x and its norm; y is whole
/// after the last layer alone.
void CachedBlock::sum_over_shards(tensor::Stream& stream, const Tensor& bias,
                                  const NormParameters* next, const CachedActivations& memory,
                                  const Tensor& x, const Tensor& y) const {
  const std::int64_t tokens = y.shape[0] / parallel_.size;
  const auto own = [&](const Tensor& all) {
    return tensor::row_view(all, parallel_.shard * tokens, tokens);
  };
  NormStatistics kept = memory.statistics;
  use_rows(kept, tokens);
  tensor::reduce_norm_gather(stream, ops_, *parallel_.groups->forward,
                             {.partial = y,
                              .bias = bias,
                              .residual = own(x),
                              .sum = own(y),
                              .weight = next ? next->weight : Tensor{},
                              .shift = next ? next->bias : Tensor{},
                              .eps = eps_,
                              .mean = kept.mean,
                              .rstd = kept.rstd,
                              .normed = next ? memory.norm : y});
}

}  // namespace troupe::stages
