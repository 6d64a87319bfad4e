#include "stages/chunk/chunk.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

#include "tensor/error.h"

namespace troupe::stages {

using tensor::Tensor;

namespace {

constexpr std::size_t kParts = static_cast<std::size_t>(Node::Sublayer::copy) + 1;

std::size_t block_count(const ChunkSpec& spec) {
  return static_cast<std::size_t>(spec.end_layer - spec.first_layer);
}

template <typename Items>
auto& at(Items& items, int index) {
  TROUPE_ASSERT(index >= 0 && static_cast<std::size_t>(index) < items.size());
  return items[static_cast<std::size_t>(index)];
}

std::vector<Tensor> all_of(const LinearParameters& first, const LinearParameters& last) {
  return {first.weight, first.bias, last.weight, last.bias};
}

}  // namespace

Chunk::Chunk(const ChunkSpec& spec, const Layers& layers, const Parameters& parameters,
             const PackedChunk& packed, ChunkActivations activations)
    : spec_(spec),
      layers_(&layers),
      rows_{row_of(spec, Pass::forward, layers.sharding, layers.recompute),
            row_of(spec, Pass::backward, layers.sharding, layers.recompute),
            row_of(spec, Pass::input_gradient, layers.sharding, layers.recompute),
            row_of(spec, Pass::weight_gradient, layers.sharding, layers.recompute)},
      activations_(std::move(activations)),
      divides_gradients_(parameters.divides_gradients()),
      has_gradient_(std::max<std::size_t>(1, block_count(spec)) * kParts, true),
      frozen_(has_gradient_.size()) {
  tensor::Device& device = layers.streams->forward().device();
  for (std::size_t i = 0; i < activations_.slots.size(); ++i) ran_.push_back(device.make_event());
  for (int layer = spec.first_layer; layer < spec.end_layer; ++layer) {
    const auto i = static_cast<std::size_t>(layer - spec.first_layer);
    blocks_.push_back({.master = parameters.block_weights(layer, Pass::forward),
                       .packed = packed.forward.blocks[i]});
    backward_blocks_.push_back({.master = parameters.block_weights(layer, Pass::backward),
                                .packed = packed.backward.blocks[i]});
    block_gradients_.push_back(parameters.block_gradients(layer));
  }
  if (spec.embedding) {
    embedding_ = parameters.embedding_weights();
    embedding_gradients_ = parameters.embedding_gradients();
  }
  if (spec.head) {
    head_ = {.master = parameters.head_weights(Pass::forward), .packed = packed.forward.head};
    backward_head_ = {.master = parameters.head_weights(Pass::backward),
                      .packed = packed.backward.head};
    head_gradients_ = parameters.head_gradients();
  }
  name_parameters(parameters);
}

void Chunk::name_parameters(const Parameters& parameters) {
  const auto keep = [&](std::vector<int> numbers) -> std::span<const int> {
    if (numbers.empty()) return {};
    return numbers_.emplace_back(std::move(numbers));
  };
  const auto layer_of = [&](const Node& node) {
    return spec_.first_layer + static_cast<int>(node.block);
  };
  for (NodeRow& row : rows_)
    for (std::size_t i = 0; i < row.nodes.size(); ++i) {
      const Node& node = row.nodes[i];
      const int layer = layer_of(node);
      if (node.work == Node::Work::weight_gradient) {
        row.ends[i].gradients = keep(parameters.parts().numbers_of(node.part, layer));
        note_frozen(node, parameters, row.ends[i].gradients);
        if (divides_gradients_)
          row.ends[i].adds_to = keep(parameters.parts().buckets_of(node.part, layer));
      }
      if (parameters.divides_weights() && reads_weights(node))
        row.ends[i].reads = keep(parameters.parts().buckets_of(node.part, layer));
    }
  if (!parameters.divides_weights()) return;
  for (std::size_t i = 0; i < blocks_.size(); ++i)
    unit_of_block_.push_back(
        parameters.parts()
            .buckets_of(Node::Sublayer::attention, spec_.first_layer + static_cast<int>(i))
            .front());
  if (spec_.head) unit_of_head_ = parameters.parts().buckets_of(Node::Sublayer::head, 0).front();
}

void Chunk::pack() const {
  tensor::Stream& stream = layers_->streams->backward();
  for (const BlockWeights& block : blocks_) layers_->block.pack(stream, block);
  if (spec_.head) layers_->head->pack(stream, head_);
}

void Chunk::pack(int bucket, Pass pass) const {
  const bool is_forward = pass == Pass::forward;
  tensor::Stream& stream = is_forward ? layers_->streams->forward() : layers_->streams->backward();
  for (std::size_t i = 0; i < unit_of_block_.size(); ++i)
    if (unit_of_block_[i] == bucket)
      layers_->block.pack(stream, is_forward ? blocks_[i] : backward_blocks_[i]);
  if (unit_of_head_ == bucket) layers_->head->pack(stream, is_forward ? head_ : backward_head_);
}

void Chunk::add_packed_copies(std::vector<PackedCopy>& matrices) const {
  for (const BlockWeights& block : blocks_)
    for (const PackedCopy& matrix : layers_->block.packed_copies(block)) matrices.push_back(matrix);
  if (spec_.head) matrices.push_back(layers_->head->packed_copy(head_));
}

const Node& Chunk::node_at(Pass pass, int node) const {
  return at(row(pass).nodes, node);
}

/// The branch of a layer's part that has collectives.
Branch Chunk::branch_of(const Node& node) {
  return node.part == Node::Sublayer::attention ? Branch::attention : Branch::feed_forward;
}

void Chunk::forward_node(const ForwardCall& call, int number, float loss_scale) {
  ChunkSlot& slot = at(activations_.slots, call.slot);
  if (number == 0) move_discarded(slot, activations_.discarded);
  open(Pass::forward, number);
  ran(call.slot).wait(layers_->streams->forward());
  if (number == 0) begin_microbatch(call, slot);
  run_forward(node_at(Pass::forward, number), slot, rows_in_use(call, slot), loss_scale);
  ran(call.slot).record(layers_->streams->forward());
}

void Chunk::backward_node(const BackwardCall& call, int number) {
  TROUPE_ASSERT(call.pass != Pass::forward);
  ChunkSlot& slot = at(activations_.slots, call.slot);
  DeferredSlot& deferred = deferred_of(call);
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
  ran(call.slot).wait(layers_->streams->backward());
  run_backward(call.pass, node_at(call.pass, number), slot, deferred);
  ran(call.slot).record(layers_->streams->backward());
}

tensor::Event& Chunk::ran(int slot) const {
  return *at(ran_, slot);
}

Tensor Chunk::slice_of(const Tensor& all) const {
  const std::int64_t elements = all.num_elements() / layers_->sharding.size;
  const std::size_t bytes = static_cast<std::size_t>(elements) * tensor::size_of(all.dtype);
  return {
      static_cast<std::byte*>(all.data) + static_cast<std::size_t>(layers_->sharding.shard) * bytes,
      all.dtype,
      {elements}};
}

DeferredSlot& Chunk::deferred_of(const BackwardCall& call) {
  if (call.pass == Pass::backward) return activations_.immediate;
  return at(activations_.deferred, call.deferred);
}

void Chunk::forget_collectives() {
  for (ChunkSlot& slot : activations_.slots) slot.pending = {};
  activations_.evaluation.pending = {};
}

std::vector<Tensor> Chunk::gradients_of(const Node& node) const {
  const std::size_t i = node.block;
  switch (node.part) {
    case Node::Sublayer::final_norm:
      return {head_gradients_.norm.weight, head_gradients_.norm.bias};
    case Node::Sublayer::head:
      return {head_gradients_.projection};
    case Node::Sublayer::feed_forward:
      return all_of(block_gradients_[i].gate_up, block_gradients_[i].down);
    case Node::Sublayer::post_norm:
      return {block_gradients_[i].post_norm.weight, block_gradients_[i].post_norm.bias};
    case Node::Sublayer::attention:
      return all_of(block_gradients_[i].qkv, block_gradients_[i].o);
    case Node::Sublayer::input_norm:
      return {block_gradients_[i].input_norm.weight, block_gradients_[i].input_norm.bias};
    case Node::Sublayer::embedding:
      return {embedding_gradients_.table, embedding_gradients_.positions};
    case Node::Sublayer::edge:
    case Node::Sublayer::copy:
      return {};
  }
  assert_failed("part is a Part", __FILE__, __LINE__);
}

void Chunk::note_frozen(const Node& node, const Parameters& parameters,
                        std::span<const int> numbers) {
  const auto is_frozen = [all = parameters.all()](int number) {
    return all[static_cast<std::size_t>(number)].update.frozen;
  };
  if (numbers.empty() || !std::ranges::all_of(numbers, is_frozen)) return;
  std::vector<Tensor>& gradients = frozen_[index_of(node)];
  gradients = gradients_of(node);
  std::erase_if(gradients, [](const Tensor& gradient) { return !gradient; });
}

std::size_t Chunk::index_of(const Node& node) {
  return node.block * kParts + static_cast<std::size_t>(node.part);
}

char& Chunk::has_gradient(const Node& node) {
  return has_gradient_[index_of(node)];
}

void Chunk::open(Pass pass, int node) {
  if (gate_) collective_wait_s_ += gate_->open(pass, at(row(pass).ends, node));
}

const tensor::Work* Chunk::awaited(Pass pass, int slot, int node) const {
  if (gate_)
    if (const tensor::Work* const work = gate_->awaited(pass, at(row(pass).ends, node)))
      return work;
  const PendingCollectives& pending = at(activations_.slots, slot).pending;
  for (const PendingCollective which : read_by(pass, node_at(pass, node)))
    if (which && pending.*which && !(pending.*which)->done()) return (pending.*which).get();
  return nullptr;
}

void Chunk::settle(Pass pass, const Node& node, PendingCollectives& pending,
                   tensor::Stream& stream) {
  for (const PendingCollective which : read_by(pass, node)) {
    if (!which || !(pending.*which)) continue;
    const auto work = std::move(pending.*which);
    const auto begin = std::chrono::steady_clock::now();
    work->wait(stream);
    const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - begin;
    collective_wait_s_ += waited.count();
  }
}

void Chunk::begin_step() {
  collective_wait_s_ = 0;
  std::fill(has_gradient_.begin(), has_gradient_.end(), false);
}

void Chunk::complete_gradients() {
  for (const Node& node : row(Pass::weight_gradient).nodes) {
    if (node.work != Node::Work::weight_gradient || node.part == Node::Sublayer::copy) continue;
    if (std::exchange(has_gradient(node), true)) continue;
    for (const Tensor& gradient : gradients_of(node))
      if (gradient) layers_->ops->fill_zero(layers_->streams->backward(), gradient);
  }
}

}  // namespace troupe::stages
