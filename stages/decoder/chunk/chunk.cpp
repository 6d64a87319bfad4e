#include "stages/decoder/chunk/chunk.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "tensor/errors/error.h"

namespace troupe::stages {

using tensor::Tensor;

namespace {

ChunkLayers layers_of(const ChunkSpec& spec, const Layers& layers, const Parameters& parameters,
                      const PackedChunk& packed) {
  ChunkLayers out{.spec = spec,
                  .sharding = layers.sharding,
                  .recompute = layers.recompute,
                  .form = layers.block.form(),
                  .head_is_in_parts = layers.head && layers.head->is_in_parts(),
                  .routed = layers.routed,
                  .layers = &layers};
  for (std::size_t i = 0; i < out.num_blocks(); ++i) {
    const int layer = spec.first_layer + static_cast<int>(i);
    const std::size_t attention = layers.attentions[static_cast<std::size_t>(layer)];
    out.blocks.push_back(weights_of(parameters.block_weights(layer, Pass::forward),
                                    packed.forward.blocks[i], attention));
    out.backward_blocks.push_back(weights_of(parameters.block_weights(layer, Pass::backward),
                                             packed.backward.blocks[i], attention));
    out.block_gradients.push_back(parameters.block_gradients(layer));
  }
  if (spec.embedding) {
    out.embedding = parameters.embedding_weights();
    out.embedding_gradients = parameters.embedding_gradients();
  }
  if (spec.head) {
    out.head = {.master = parameters.head_weights(Pass::forward), .packed = packed.forward.head};
    out.backward_head = {.master = parameters.head_weights(Pass::backward),
                         .packed = packed.backward.head};
    out.head_gradients = parameters.head_gradients();
  }
  return out;
}

}  // namespace

Chunk::Chunk(const ChunkSpec& spec, const Layers& layers, const Parameters& parameters,
             const PackedChunk& packed, ChunkActivations activations)
    : layers_(layers_of(spec, layers, parameters, packed)),
      rows_{row_of(layers_, Pass::forward), row_of(layers_, Pass::backward),
            row_of(layers_, Pass::input_gradient), row_of(layers_, Pass::weight_gradient)},
      activations_(std::move(activations)),
      divides_gradients_(parameters.divides_gradients()),
      has_gradient_(row(Pass::backward).nodes.size(), true) {
  tensor::Device& device = layers.streams->forward().device();
  for (std::size_t i = 0; i < activations_.slots.size(); ++i) ran_.push_back(device.make_event());
  name_parameters(parameters);
}

void Chunk::name_parameters(const Parameters& parameters) {
  const ParameterLayout& layout = parameters.layout();
  const auto keep = [&](std::vector<int> numbers) -> std::span<const int> {
    if (numbers.empty()) return {};
    return numbers_.emplace_back(std::move(numbers));
  };
  const auto is_frozen = [all = parameters.all()](int number) {
    return all[static_cast<std::size_t>(number)].update.frozen;
  };
  const ChunkSpec& spec = layers_.spec;
  const auto layer_of = [&](std::size_t block) {
    return spec.first_layer + static_cast<int>(block);
  };
  for (NodeRow& row : rows_)
    for (std::size_t i = 0; i < row.nodes.size(); ++i) {
      Node& node = row.nodes[i];
      if (!node.module) continue;
      const int layer = layer_of(node.block);
      if (node.kind == Node::Kind::weight_gradient) {
        const std::span<const int> numbers = keep(layout.trained_of(*node.module, layer));
        row.ends[i].gradients = numbers;
        node.gradients = parameters.gradients_of(*node.module, layer);
        node.is_frozen = std::ranges::all_of(numbers, is_frozen);
        if (divides_gradients_) row.ends[i].adds_to = keep(layout.buckets_of(*node.module, layer));
      }
      if (parameters.divides_weights() && node.reads_weights)
        row.ends[i].reads = keep(layout.buckets_of(*node.module, layer));
    }
  if (!parameters.divides_weights()) return;
  for (std::size_t i = 0; i < layers_.num_blocks(); ++i) {
    unit_of_block_.push_back(layout.buckets_of(Module::attention, layer_of(i)).front());
    unit_of_experts_.push_back(layout.bucket_of_experts(layer_of(i)));
  }
  if (spec.head) unit_of_head_ = layout.buckets_of(Module::head, 0).front();
}

void Chunk::pack() const {
  const Layers& layers = *layers_.layers;
  for (const BlockWeights& block : layers_.blocks)
    layers.block.products().pack(layers.streams->backward(), block);
  if (layers_.spec.head) layers.head->pack(layers.streams->backward(), layers_.head);
}

void Chunk::pack_adapters() const {
  const Layers& layers = *layers_.layers;
  for (const BlockWeights& block : layers_.blocks)
    layers.block.products().pack_adapters(layers.streams->backward(), block);
}

void Chunk::pack(int bucket, Pass pass) const {
  const Layers& layers = *layers_.layers;
  const bool is_forward = pass == Pass::forward;
  tensor::Stream& stream = is_forward ? layers.streams->forward() : layers.streams->backward();
  for (std::size_t i = 0; i < unit_of_block_.size(); ++i) {
    const bool has_block = unit_of_block_[i] == bucket, has_experts = unit_of_experts_[i] == bucket;
    if (!has_block && !has_experts) continue;
    const LayerPart part = !has_block     ? LayerPart::experts
                           : !has_experts ? LayerPart::others
                                          : LayerPart::all;
    layers.block.products().pack(stream,
                                 is_forward ? layers_.blocks[i] : layers_.backward_blocks[i], part);
  }
  if (unit_of_head_ == bucket)
    layers.head->pack(stream, is_forward ? layers_.head : layers_.backward_head);
}

void Chunk::add_packed_copies(std::vector<PackedCopy>& matrices) const {
  const Layers& layers = *layers_.layers;
  for (const BlockWeights& block : layers_.blocks)
    layers.block.products().add_packed_copies(block, matrices);
  if (layers_.spec.head) matrices.push_back(layers.head->packed_copy(layers_.head));
}

void Chunk::begin_step() {
  collective_wait_s_ = 0;
  std::ranges::fill(has_gradient_, false);
  if (activations_.all_loads)
    layers_.layers->ops->fill_zero(layers_.layers->streams->forward(), activations_.all_loads);
}

void Chunk::complete_gradients() {
  for (const Node& node : row(Pass::weight_gradient).nodes) {
    if (node.gradients.empty() || std::exchange(has_gradient_[node.number], true)) continue;
    for (const Tensor& gradient : node.gradients)
      layers_.layers->ops->fill_zero(layers_.layers->streams->backward(), gradient);
  }
}

const tensor::Work* Chunk::awaited(Pass pass, int slot, int node) const {
  if (gate_)
    if (const tensor::Work* const work = gate_->awaited(pass, at(row(pass).ends, node)))
      return work;
  const PendingCollectives& pending = at(activations_.slots, slot).pending;
  for (const PendingCollective which : at(row(pass).nodes, node).waits)
    if (which && pending.*which && (pending.*which)->holds_up()) return (pending.*which).get();
  return nullptr;
}

void Chunk::forward_node(const ForwardCall& call, int number, float loss_scale) {
  ChunkSlot& slot = at(activations_.slots, call.slot);
  tensor::Stream& stream = layers_.layers->streams->forward();
  if (number == 0) move_discarded(slot, activations_.discarded);
  open(Pass::forward, number);
  ran(call.slot).wait(stream);
  if (number == 0) begin_microbatch(call, slot);
  const ForwardCall in_use = rows_in_use(call, slot);
  run(at(row(Pass::forward).nodes, number),
      {.slot = slot, .forward = &in_use, .loss_scale = loss_scale}, stream);
  ran(call.slot).record(stream);
}

void Chunk::evaluate(const ForwardCall& call) {
  ChunkSlot& slot = activations_.evaluation;
  const Tensor logits = slot.head.logits;
  if (layers_.spec.head && call.output) slot.head.logits = call.output;
  begin_microbatch(call, slot);
  const ForwardCall in_use = rows_in_use(call, slot);
  const std::vector<Node>& nodes = row(Pass::forward).nodes;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    open(Pass::forward, static_cast<int>(i));
    run(nodes[i], {.slot = slot, .forward = &in_use}, layers_.layers->streams->forward());
  }
  slot.head.logits = logits;
}

void Chunk::backward_node(const BackwardCall& call, int number) {
  TROUPE_ASSERT(call.pass != Pass::forward);
  ChunkSlot& slot = at(activations_.slots, call.slot);
  DeferredSlot& deferred = deferred_of(call);
  tensor::Stream& stream = layers_.layers->streams->backward();
  if (call.pass != Pass::weight_gradient) {
    slot.output_gradient = rows_in_use(call.output_gradient, slot);
    slot.input_gradient = rows_in_use(call.input_gradient, slot);
    if (number == 0) {
      move_discarded(slot, deferred.again);
      use_tokens(slot);
      use_tokens(slot, deferred);
    }
  }
  open(call.pass, number);
  ran(call.slot).wait(stream);
  run(at(row(call.pass).nodes, number), {.slot = slot, .deferred = &deferred}, stream);
  ran(call.slot).record(stream);
}

tensor::Event& Chunk::ran(int slot) const {
  return *at(ran_, slot);
}

DeferredSlot& Chunk::deferred_of(const BackwardCall& call) {
  if (call.pass == Pass::backward) return activations_.immediate;
  return at(activations_.deferred, call.deferred);
}

void Chunk::open(Pass pass, int node) {
  if (gate_) collective_wait_s_ += gate_->open(pass, at(row(pass).ends, node));
}

void Chunk::run(const Node& node, NodeCall call, tensor::Stream& stream) {
  PendingCollectives& pending = call.slot.pending;
  wait_for_collectives(node, pending, stream);
  if (node.again && !call.slot.discards) return;
  if (!node.gradients.empty() && !begin_gradient(node, call.gradient)) return;
  std::unique_ptr<tensor::Work> started = node.run(call);
  if (node.starts) pending.*node.starts = std::move(started);
}

void Chunk::wait_for_collectives(const Node& node, PendingCollectives& pending,
                                 tensor::Stream& stream) {
  for (const PendingCollective which : node.waits) {
    if (!which || !(pending.*which)) continue;
    const auto work = std::move(pending.*which);
    const auto begin = std::chrono::steady_clock::now();
    work->wait(stream);
    const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - begin;
    collective_wait_s_ += waited.count();
  }
}

bool Chunk::begin_gradient(const Node& node, tensor::Gradient& which) {
  const bool is_first = divides_gradients_ || !std::exchange(has_gradient_[node.number], true);
  which = is_first ? tensor::Gradient::first : tensor::Gradient::added;
  if (!node.is_frozen) return true;
  if (is_first)
    for (const Tensor& gradient : node.gradients)
      layers_.layers->ops->fill_zero(layers_.layers->streams->backward(), gradient);
  return false;
}

void Chunk::forget_collectives() {
  for (ChunkSlot& slot : activations_.slots) slot.pending = {};
  activations_.evaluation.pending = {};
}

}  // namespace troupe::stages
