#include "stages/inference/cached_block.h"

namespace troupe::stages {

using tensor::Tensor;

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
    : shape_(spec.layer),
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

void CachedBlock::forward(tensor::Stream& stream, const BlockWeights& weights,
                          const tensor::CachedTokens& tokens, const Tensor& cache,
                          const CachedActivations& memory, const Tensor& x) const {
  const CachedActivations rows = memory.rows(x.shape[0]);
  run(stream, Branch::attention, weights, rows, x, rows.mid, [&](const CachedSublayer& own) {
    attention_->forward(stream, own.inner, tokens, cache, own.hidden);
  });
  run(stream, Branch::feed_forward, weights, rows, rows.mid, x, [&](const CachedSublayer& own) {
    (ops_.*traits_.activation)(stream, own.inner, own.hidden);
  });
}

template <typename Core>
void CachedBlock::run(tensor::Stream& stream, Branch branch, const BlockWeights& weights,
                      const CachedActivations& memory, const Tensor& x, const Tensor& y,
                      const Core& core) const {
  const auto& [norm, in, out, inner] = products_[branch];
  const auto& [master, packed] = weights[branch];
  const CachedSublayer& own = memory.sublayers[branch];
  norm.forward(stream, master.norm, x, memory.norm, memory.statistics);
  in->forward(stream, memory.norm, memory.norm, packed.in, master.in.bias, own.inner);
  core(own);
  out->forward(stream, packed.out,
               {.x = own.hidden, .y_partial = y, .y = y, .bias = master.out.bias, .residual = x});
}

}  // namespace troupe::stages
