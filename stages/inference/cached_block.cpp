#include "stages/inference/cached_block.h"

#include <algorithm>

#include "stages/model/computation.h"
#include "tensor/parallel/division.h"
#include "tensor/parallel/reduce_norm_gather.h"

namespace troupe::stages {

using tensor::Tensor;

namespace {

/// Less than this is summed over shards at once, by an all-reduce, in whose place two collectives
/// would only be one more to wait for.
constexpr std::int64_t kLeastDividedBytes = 64 << 10;

tensor::CachedAttentionShape cached_shape(const InferenceLayers& spec, const LayerShape& shape,
                                          const LayerAttention& attention) {
  const ModelConfig& model = spec.layer.model;
  return {.rows = shape.T,
          .sequences = spec.sequences,
          .capacity = spec.capacity,
          .heads = shape.heads,
          .kv_heads = shape.kv_heads,
          .head_dim = model.head_dim,
          .dtype = shape.dtype,
          .window = attention.window < spec.capacity ? attention.window : 0,
          .scale = static_cast<float>(attention_scale(model)),
          .cap = static_cast<float>(attention_cap(model))};
}

}  // namespace

tensor::LinearShape inference_shape(const InferenceLayers& spec) {
  const tensor::DType dtype = spec.layer.model.dtype;
  return {.rows = spec.layer.seq_len,
          .dtype = dtype,
          .output_dtype = dtype,
          .other_rows = {spec.few_rows},
          .gradients = false};
}

CachedActivations CachedBlock::first_rows(const CachedActivations& memory,
                                          std::int64_t count) const {
  CachedActivations first = memory;
  auto& [attention, feed_forward] = first.sublayers;
  for (Tensor* x : {&first.norm, &first.mid, &attention.inner, &attention.hidden,
                    &feed_forward.inner, &feed_forward.hidden})
    use_rows(*x, count);
  use_rows(first.statistics, count);
  use_rows(first.head_squares, 2 * count);
  if (const RoutedExperts* const routed = products_.feed_forward.routed.get()) {
    routed->use_tokens(count, first.routed);
    routed->use_tokens(count, first.routed_scratch);
  }
  return first;
}

CachedBlock::CachedBlock(const InferenceLayers& spec, tensor::Device& device)
    : parallel_(spec.layer.parallel),
      one_shot_(spec.one_shot),
      eps_(static_cast<float>(traits_of(spec.layer.model.kind).has_layer_norm
                                  ? spec.layer.model.layer_norm_epsilon
                                  : spec.layer.model.rms_norm_eps)),
      plus_(weight_offset(spec.layer.model)),
      shape_(spec.layer),
      traits_(traits_of(spec.layer.model.kind)),
      ops_(device.ops()),
      head_norms_(spec.layer, device),
      products_(spec.layer, device, inference_shape(spec)) {
  for (const LayerAttention& attention : attentions_of(spec.layer.model))
    attentions_.push_back(device.make_cached_attention(cached_shape(spec, shape_, attention)));
}

std::size_t CachedBlock::attention_scratch_bytes() const {
  std::size_t bytes = 0;
  for (const auto& one : attentions_) bytes = std::max(bytes, one->scratch_bytes());
  return bytes;
}

std::int64_t CachedBlock::cache_elements() const {
  std::int64_t elements = 0;
  for (const auto& one : attentions_) elements = std::max(elements, one->cache_elements());
  return elements;
}

CachedActivations CachedBlock::lay_out_activations(Arena& arena) const {
  const auto take = [&](std::int64_t width) { return arena.take(shape_.dtype, {shape_.T, width}); };
  CachedActivations memory;
  memory.norm = take(shape_.C);
  const SublayerProducts& like = products_.attention;
  memory.statistics = (like.form.has_norm ? like.norm : like.end_norm).lay_out_statistics(arena);
  memory.mid = take(shape_.C);
  if (head_norms_.sums_heads())
    memory.head_squares = arena.take(tensor::DType::f32, {2 * shape_.T});
  arena.overlay(
      [&] { memory.sublayers.attention = {.inner = take(shape_.Q), .hidden = take(shape_.A)}; },
      [&] { memory.sublayers.feed_forward = {.inner = take(shape_.H), .hidden = take(shape_.F)}; });
  if (const RoutedExperts* const routed = products_.feed_forward.routed.get()) {
    routed->lay_out(arena, {.outputs = true, .choice = true}, memory.routed);
    memory.routed.inner = routed->lay_out_inner(arena);
    memory.routed_scratch = routed->lay_out_scratch(arena);
  }
  return memory;
}

void CachedBlock::set_scratch(void* products, void* attention) const {
  products_.set_scratch({.forward = products});
  for (const auto& one : attentions_) one->set_scratch(attention);
}

void CachedBlock::begin(tensor::Stream& stream, const BlockWeights& first,
                        const CachedActivations& memory, const Tensor& x) const {
  const CachedActivations rows = first_rows(memory, x.shape[0]);
  products_.attention.norm.forward(stream, first.attention.master.norm, x, rows.norm,
                                   rows.statistics);
}

void CachedBlock::forward(tensor::Stream& stream, const BlockWeights& weights,
                          const NormParameters* next, const tensor::CachedTokens& tokens,
                          const Tensor& cache, const CachedActivations& memory,
                          const Tensor& x) const {
  const CachedActivations rows = first_rows(memory, x.shape[0]);
  run(stream, Branch::attention, weights, &weights.feed_forward.master.norm, rows, x, rows.mid,
      [&](const CachedSublayer& own) {
        tensor::CachedAttention& attention = *attentions_[weights.attention.attention];
        norm_heads(stream, weights.attention.master, rows, own);
        attention.forward(stream, own.inner, tokens,
                          {cache.data, cache.dtype, {attention.cache_elements()}}, own.hidden);
      });
  run(stream, Branch::feed_forward, weights, next, rows, rows.mid, x,
      [&](const CachedSublayer& own) {
        if (weights.feed_forward.master.router)
          products_.feed_forward.routed->forward_hidden(stream, rows.routed);
        else
          (ops_.*traits_.activation)(stream, own.inner, own.hidden);
      });
}

void CachedBlock::first_product(tensor::Stream& stream, Branch branch, const BlockWeights& weights,
                                const CachedActivations& memory) const {
  const SublayerProducts& products = products_[branch];
  const SublayerWeights& own = weights[branch];
  if (!own.master.router)
    return products.in->forward(stream, memory.norm, memory.norm, own.packed.in, own.master.in.bias,
                                memory.sublayers[branch].inner);
  products.routed->choose(stream, own, memory.norm, memory.routed, memory.routed_scratch);
  products.routed->forward_product(stream, own, memory.norm, memory.routed, memory.routed_scratch);
}

void CachedBlock::last_product(tensor::Stream& stream, Branch branch, const BlockWeights& weights,
                               const CachedActivations& memory, const Tensor& y,
                               const Tensor& residual) const {
  const SublayerProducts& products = products_[branch];
  const SublayerWeights& own = weights[branch];
  if (own.master.router)
    products.routed->forward_output(stream, own, memory.routed, memory.routed_scratch, y, residual);
  else
    products.out->product(stream, memory.sublayers[branch].hidden, own.packed.out, y, residual);
}

template <typename Core>
void CachedBlock::run(tensor::Stream& stream, Branch branch, const BlockWeights& weights,
                      const NormParameters* next, const CachedActivations& memory, const Tensor& x,
                      const Tensor& y, const Core& core) const {
  const SublayerProducts& products = products_[branch];
  const SublayerForm& form = products.form;
  const Tensor& bias = weights[branch].master.out.bias;
  first_product(stream, branch, weights, memory);
  core(memory.sublayers[branch]);
  if (form.changes_branch() || !form.has_norm) {
    add_branch(stream, branch, weights, memory, x, y);
    if (next) products.norm.forward(stream, *next, y, memory.norm, memory.statistics);
    return;
  }
  if (sums_at_once(x.shape[0])) {
    last_product(stream, branch, weights, memory, one_shot_->part(y.dtype, y.shape));
    return sum_at_once(stream, bias, next, memory, x, y);
  }
  if (divides(x.shape[0])) {
    last_product(stream, branch, weights, memory, y);
    return sum_over_shards(stream, bias, next, memory, x, y);
  }
  const bool fuses = parallel_.size == 1;
  last_product(stream, branch, weights, memory, y, fuses ? x : Tensor{});
  if (!fuses) tensor::wait(parallel_.groups->forward->all_reduce(stream, y), stream);
  if (bias)
    ops_.add_bias(stream, bias, y, fuses ? Tensor{} : x);
  else if (!fuses)
    ops_.accumulate(stream, x, y);
  if (next) products.norm.forward(stream, *next, y, memory.norm, memory.statistics);
}

void CachedBlock::norm_heads(tensor::Stream& stream, const SublayerParameters& weights,
                             const CachedActivations& memory, const CachedSublayer& own) const {
  if (!head_norms_.are_there()) return;
  head_norms_.sum_squares(stream, own.inner, memory.head_squares);
  if (memory.head_squares)
    tensor::wait(parallel_.groups->forward->all_reduce(stream, memory.head_squares), stream);
  head_norms_.forward(stream, weights.query_norm, weights.key_norm, own.inner, memory.head_squares,
                      own.inner);
}

void CachedBlock::add_branch(tensor::Stream& stream, Branch branch, const BlockWeights& weights,
                             const CachedActivations& memory, const Tensor& x,
                             const Tensor& y) const {
  const SublayerProducts& products = products_[branch];
  const auto& [master, packed, attention] = weights[branch];
  products.out->forward(stream, packed.out,
                        {.x = memory.sublayers[branch].hidden,
                         .y_partial = y,
                         .y = y,
                         .bias = master.out.bias,
                         .residual = {}});
  const Tensor* added = &y;
  if (products.form.has_end_norm) {
    // The first product has read what was there.
    products.end_norm.forward(stream, master.end_norm, y, memory.norm, memory.statistics);
    added = &memory.norm;
  }
  ops_.add_scaled(stream, *added, products.form.branch_scale, x, y);
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
                          .plus = plus_,
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
                              .plus = plus_,
                              .mean = kept.mean,
                              .rstd = kept.rstd,
                              .normed = next ? memory.norm : y});
}

}  // namespace troupe::stages
