#include "tests/bench/gpu/gpu_step.h"

#include <cmath>
#include <span>

#include "tensor/device/ops.h"
#include "tensor/errors/error.h"
#include "tensor/values/random.h"
#include "tests/support/stage_passes.h"

namespace troupe::bench {

using tensor::DType;
using tensor::MemoryKind;
using tensor::Shape;
using tensor::Tensor;

namespace {

constexpr std::int64_t kRows = 8192;  // tokens of a microbatch

stages::StageSpec spec_of(const GpuWorkload& workload) {
  return {.model = workload.model,
          .chunks = {{.first_layer = 0,
                      .end_layer = static_cast<int>(workload.model.num_hidden_layers),
                      .embedding = true,
                      .head = true}},
          .micro = workload.micro,
          .seq_len = workload.seq_len,
          .global_tokens = workload.tokens()};
}

}  // namespace

GpuWorkload gpu_workload(const std::string& size, std::int64_t seq_len) {
  stages::ModelConfig model{.vocab_size = 32000, .dtype = DType::bf16};
  model.head_dim = 128;
  if (size == "1b5") {
    model.hidden_size = 2048;
    model.intermediate_size = 5632;
    model.num_hidden_layers = 28;
    model.num_attention_heads = 16;
    model.num_key_value_heads = 8;
  } else if (size == "7b") {
    model.hidden_size = 4096;
    model.intermediate_size = 11008;
    model.num_hidden_layers = 4;
    model.num_attention_heads = model.num_key_value_heads = 32;
  } else {
    throw Error(ErrorKind::usage, "'" + size + "' is no size: 1b5 or 7b");
  }
  return {.model = model, .seq_len = seq_len, .micro = kRows / seq_len, .microbatches = 4};
}

GpuStep::GpuStep(const GpuWorkload& workload, tensor::Device& device)
    : workload_(workload),
      stage_(stages::make_transformer_stage(spec_of(workload), device)),
      pinned_(device.allocate(
          static_cast<std::size_t>(workload.rows()) * sizeof(std::int32_t) + sizeof(double),
          MemoryKind::pinned)),
      squared_norms_(stage_->parameters().size()) {
  auto* const ids = pinned_.view(DType::i32, {workload.rows()}, sizeof(double)).as<std::int32_t>();
  for (std::int64_t i = 0; i < workload.rows(); ++i)
    ids[i] = static_cast<std::int32_t>(static_cast<std::uint32_t>(i) * 2654435761u >> 8) %
             static_cast<std::int32_t>(workload.model.vocab_size);
  stages::initialize(*stage_, workload.model, 1, 8);
}

void GpuStep::run() {
  const std::span<const std::int32_t> ids(
      pinned_.view(DType::i32, {workload_.rows()}, sizeof(double)).as<std::int32_t>(),
      static_cast<std::size_t>(workload_.rows()));
  stage_->begin_step();
  for (int i = 0; i < workload_.microbatches; ++i) {
    run_forward(*stage_, {.ids = ids, .targets = ids, .loss = pinned_.view(DType::f64, {1})});
    run_backward(*stage_, {});
  }
  stage_->synchronize();
  end_backward(*stage_);
  stage_->squared_norms(squared_norms_);
  double sum = 0;
  for (const double squared_norm : squared_norms_) sum += squared_norm;
  const double clip = stages::clip_factor(optimizer_, std::sqrt(sum));
  stage_->apply(stages::adamw_step(optimizer_, ++step_, clip));
}

GpuProducts::GpuProducts(const GpuWorkload& workload, tensor::Device& device)
    : workload_(workload), device_(device), stream_(device.make_stream()) {
  const stages::ModelConfig& model = workload.model;
  const std::int64_t hidden = model.hidden_size, heads = model.num_attention_heads;
  add(hidden, (heads + 2 * model.num_key_value_heads) * model.head_dim, DType::bf16);
  add(heads * model.head_dim, hidden, DType::bf16);
  add(hidden, 2 * model.intermediate_size, DType::bf16);
  add(model.intermediate_size, hidden, DType::bf16);
  const double of_layer = flop_ * static_cast<double>(model.num_hidden_layers);
  flop_ = 0;
  add(hidden, model.vocab_size, DType::f32);
  flop_ = (flop_ + of_layer) * workload.microbatches;
  stream_->synchronize();
}

Tensor GpuProducts::allocate(DType dtype, Shape shape) {
  const auto count = static_cast<std::size_t>(shape.num_elements());
  buffers_.push_back(device_.allocate(count * tensor::size_of(dtype), MemoryKind::device));
  const Tensor made = buffers_.back().view(dtype, shape);
  // Not zeros, on which a GPU is faster.
  const tensor::Buffer floats = device_.allocate(count * sizeof(float), MemoryKind::pinned);
  const Tensor values = floats.view(DType::f32, {static_cast<std::int64_t>(count)});
  const tensor::Random random(1, "products");
  for (std::size_t i = 0; i < count; ++i)
    values.as<float>()[i] = static_cast<float>(random.uniform(i % 65536)) - 0.5f;
  device_.ops().copy(*stream_, values, {made.data, dtype, values.shape});
  stream_->synchronize();
  return made;
}

void GpuProducts::add(std::int64_t in, std::int64_t out, DType output) {
  const std::int64_t rows = workload_.rows();
  Layer layer{
      .linear = device_.make_linear(
          {.rows = rows, .in = in, .out = out, .dtype = DType::bf16, .output_dtype = output}),
      .x = allocate(DType::bf16, {rows, in}),
      .y = allocate(output, {rows, out}),
      .w = allocate(DType::f32, {out, in}),
      .dw = allocate(DType::f32, {out, in})};
  const auto bytes_of = [&](std::size_t bytes) {
    buffers_.push_back(device_.allocate(bytes + 1, MemoryKind::device));
    return buffers_.back().data();
  };
  layer.packed = bytes_of(layer.linear->packed_bytes());
  const auto scratch = layer.linear->scratch_bytes();
  layer.linear->set_scratch(
      {.forward = bytes_of(scratch.forward), .backward = bytes_of(scratch.backward)});
  layer.linear->pack(*stream_, layer.w, layer.packed);
  flop_ += 6.0 * static_cast<double>(rows) * static_cast<double>(in) * static_cast<double>(out);
  layers_.push_back(std::move(layer));
}

void GpuProducts::forward(Layer& layer) {
  layer.linear->forward(*stream_, layer.x, layer.packed, layer.y);
}

void GpuProducts::backward(Layer& layer) {
  // The gradient has the type of computation; the head's logits are wider and hold it, too.
  const Tensor dy{layer.y.data, DType::bf16, layer.y.shape};
  layer.linear->input_gradient(*stream_, dy, layer.packed, layer.x);
  layer.linear->weight_gradient(*stream_, dy, layer.x, layer.dw, tensor::Gradient::added);
}

void GpuProducts::run() {
  const std::size_t head = layers_.size() - 1;
  for (int i = 0; i < workload_.microbatches; ++i) {
    for (std::int64_t n = 0; n < workload_.model.num_hidden_layers; ++n)
      for (std::size_t j = 0; j < head; ++j) forward(layers_[j]);
    forward(layers_[head]);
    backward(layers_[head]);
    for (std::int64_t n = 0; n < workload_.model.num_hidden_layers; ++n)
      for (std::size_t j = head; j-- > 0;) backward(layers_[j]);
  }
  stream_->synchronize();
}

}  // namespace troupe::bench
