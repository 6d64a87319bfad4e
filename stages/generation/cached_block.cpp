#include "stages/generation/cached_block.h"

#include <algorithm>

#include "tensor/parallel/row_view.h"

namespace troupe::stages {

using tensor::Tensor;

tensor::LinearShape inference_shape(const InferenceLayers& spec, std::int64_t in, std::int64_t out,
                                    tensor::DType output_dtype) {
  return {.rows = spec.layer.seq_len,
          .in = in,
          .out = out,
          .dtype = spec.layer.model.dtype,
          .output_dtype = output_dtype,
          .other_rows = spec.few_rows,
          .gradients = false};
}

CachedActivations CachedActivations::rows(std::int64_t count) const {
  const auto of = [count](const Tensor& x) { return tensor::row_view(x, 0, count); };
  const auto numbers = [count](const Tensor& x) {
    return x ? Tensor{x.data, x.dtype, {count}} : Tensor{};
  };
  return {.norm = of(norm),
          .statistics = {.mean = numbers(statistics.mean), .rstd = numbers(statistics.rstd)},
          .qkv = of(qkv),
          .attn = of(attn),
          .mid = of(mid),
          .gate_up = of(gate_up),
          .act = of(act)};
}

CachedBlock::CachedBlock(const InferenceLayers& spec, tensor::Device& device)
    : shape_(spec.layer),
      shard_(spec.layer.parallel.shard),
      shards_(spec.shards),
      norm_(make_norm(spec.layer, device)),
      activation_(make_activation(spec.layer, device)),
      attention_(device.make_cached_attention({.rows = shape_.T,
                                               .sequences = spec.sequences,
                                               .capacity = spec.capacity,
                                               .heads = shape_.heads,
                                               .kv_heads = shape_.kv_heads,
                                               .head_dim = spec.layer.model.head_dim,
                                               .dtype = shape_.dtype})) {
  using Column = tensor::ColumnParallelLinear;
  using Row = tensor::RowParallelLinear;
  const tensor::TensorParallel& parallel = spec.layer.parallel;
  const auto whole = [&](std::int64_t in, std::int64_t out) {
    return inference_shape(spec, in, out, shape_.dtype);
  };
  qkv_ = std::make_unique<Column>(device, whole(shape_.C, parallel.size * shape_.Q), parallel);
  o_ = std::make_unique<Row>(device, whole(parallel.size * shape_.A, shape_.C), parallel);
  gate_up_ = std::make_unique<Column>(device, whole(shape_.C, parallel.size * shape_.H), parallel);
  down_ = std::make_unique<Row>(device, whole(parallel.size * shape_.F, shape_.C), parallel);
}

PackedBlock CachedBlock::lay_out_packed(Arena& arena) const {
  return {.qkv = arena.take_bytes(qkv_->packed_bytes()),
          .o = arena.take_bytes(o_->packed_bytes()),
          .gate_up = arena.take_bytes(gate_up_->packed_bytes()),
          .down = arena.take_bytes(down_->packed_bytes())};
}

CachedActivations CachedBlock::lay_out_activations(Arena& arena) const {
  const auto [T, S, C, heads, kv_heads, A, Q, F, H, V, act] = shape_;
  CachedActivations memory;
  memory.norm = arena.take(act, {T, C});
  memory.statistics = norm_->lay_out_statistics(arena);
  memory.mid = arena.take(act, {T, C});
  arena.overlay(
      [&, T = T, Q = Q, A = A, act = act] {
        memory.qkv = arena.take(act, {T, Q});
        memory.attn = arena.take(act, {T, A});
      },
      [&, T = T, H = H, F = F, act = act] {
        memory.gate_up = arena.take(act, {T, H});
        memory.act = arena.take(act, {T, F});
      });
  return memory;
}

std::size_t CachedBlock::product_scratch_bytes() const {
  return std::max({qkv_->scratch_bytes().forward, o_->scratch_bytes().forward,
                   gate_up_->scratch_bytes().forward, down_->scratch_bytes().forward});
}

void CachedBlock::set_scratch(void* products, void* attention) const {
  for (tensor::ColumnParallelLinear* linear : {qkv_.get(), gate_up_.get()})
    linear->set_scratch({.forward = products});
  for (tensor::RowParallelLinear* linear : {o_.get(), down_.get()})
    linear->set_scratch({.forward = products});
  attention_->set_scratch(attention);
}

void CachedBlock::pack(tensor::Stream& stream, const BlockWeights& weights) const {
  const auto& [master, packed] = weights;
  qkv_->pack(stream, master.qkv.weight, packed.qkv);
  o_->pack(stream, master.o.weight, packed.o);
  gate_up_->pack(stream, master.gate_up.weight, packed.gate_up);
  down_->pack(stream, master.down.weight, packed.down);
}

void CachedBlock::forward(tensor::Stream& stream, const BlockWeights& weights,
                          const tensor::CachedTokens& tokens, const Tensor& cache,
                          const CachedActivations& memory, const Tensor& x) const {
  const auto& [master, packed] = weights;
  const auto [norm, statistics, qkv, attn, mid, gate_up, act] = memory.rows(x.shape[0]);
  norm_->forward(stream, master.input_norm, x, norm, statistics);
  qkv_->product(stream, norm, packed.qkv, master.qkv.bias, qkv);
  attention_->forward(stream, qkv, tokens, cache, attn);
  project(stream, *o_, attn, packed.o, master.o.bias, x, mid);
  norm_->forward(stream, master.post_norm, mid, norm, statistics);
  gate_up_->product(stream, norm, packed.gate_up, master.gate_up.bias, gate_up);
  activation_->forward(stream, gate_up, act);
  project(stream, *down_, act, packed.down, master.down.bias, mid, x);
}

void CachedBlock::project(tensor::Stream& stream, tensor::RowParallelLinear& linear,
                          const Tensor& in, const void* packed, const Tensor& bias,
                          const Tensor& residual, const Tensor& y) const {
  if (!shards_) {
    linear.product(stream, in, packed, y, residual);
    return linear.add_bias_and_residual(stream, bias, {}, y);
  }
  linear.product(stream, in, packed, y);
  shards_->add(shard_, y);
  linear.add_bias_and_residual(stream, bias, residual, y);
}

}  // namespace troupe::stages
