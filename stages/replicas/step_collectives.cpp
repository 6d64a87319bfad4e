#include "stages/replicas/step_collectives.h"

#include <span>

#include "stages/decoder/chunk/chunk_layers.h"
#include "stages/decoder/parameters/parameter_layout.h"

namespace troupe::stages {
namespace {

/// Adds collectives of one kind up.
struct Sum {
  int count = 0;
  std::int64_t elements = 0;
  void add(std::int64_t size) {
    ++count;
    elements += size;
  }
  PlannedCollectives of(const char* operation, tensor::DType dtype = tensor::DType::f32) const {
    return {.operation = operation,
            .count = count,
            .bytes = elements * static_cast<std::int64_t>(tensor::size_of(dtype))};
  }
};

/// What one lane gathers: the buckets that their slot does not have already.
std::vector<int> gathered_in(const BucketSlots& slots, std::span<const int> order) {
  std::vector<int> in_slot(slots.offsets.size(), -1), gathered;
  for (const int bucket : order) {
    int& held = in_slot[static_cast<std::size_t>(slots.slot_of[static_cast<std::size_t>(bucket)])];
    if (held == bucket) continue;
    held = bucket;
    gathered.push_back(bucket);
  }
  return gathered;
}

/// What forwards and backwards gather.
UnitOrder gathered_in(const ParameterLayout& layout, const StateSharding& state,
                      const UnitOrder& order) {
  UnitOrder gathered{.forward = gathered_in(layout.forward_slots, order.forward)};
  if (state.reshards) gathered.backward = gathered_in(layout.backward_slots, order.backward);
  return gathered;
}

std::string name_of_unit(const ParameterLayout& layout, const ModelConfig& model, int bucket) {
  if (bucket == layout.head_use) return "head";
  const int first = layout.buckets[static_cast<std::size_t>(bucket)].parameters.first;
  const int layer = layout.entries[static_cast<std::size_t>(first)].info.layer;
  if (layer == kEmbeddingLayer) return "embedding";
  if (layer == kPositionsLayer) return "positions";
  return layer == model.num_hidden_layers ? "head" : "layer " + std::to_string(layer);
}

}  // namespace

std::vector<std::vector<int>> reads_of(const StageSpec& stage, int chunk, Pass pass) {
  const ChunkSpec& spec = stage.chunks[static_cast<std::size_t>(chunk)];
  const ParameterLayout layout = lay_out_parameters(stage);
  const ChunkLayers layers{.spec = spec, .sharding = stage.sharding, .recompute = stage.recompute};
  std::vector<std::vector<int>> reads;
  for (const Node& node : row_of(layers, pass).nodes) {
    reads.emplace_back();
    const int layer = spec.first_layer + static_cast<int>(node.block);
    if (stage.state.weights && node.reads_weights && node.module)
      reads.back() = layout.buckets_of(*node.module, layer);
  }
  return reads;
}

PlannedGathers plan_gathers(const StageSpec& stage, const UnitOrder& order) {
  if (!stage.state.weights) return {};
  const ParameterLayout layout = lay_out_parameters(stage);
  const UnitOrder gathered = gathered_in(layout, stage.state, order);
  PlannedGathers plan{.at_once = static_cast<int>(layout.forward_slots.offsets.size())};
  for (const int bucket : gathered.forward)
    plan.forward.push_back(name_of_unit(layout, stage.model, bucket));
  for (const int bucket : gathered.backward)
    plan.backward.push_back(name_of_unit(layout, stage.model, bucket));
  return plan;
}

std::vector<PlannedCollectives> plan_collectives(const DataParallelSpec& spec,
                                                 const StageSpec& stage, const UnitOrder& order,
                                                 int replicas) {
  if (replicas == 1) return {};
  const ParameterLayout layout = lay_out_parameters(stage);
  const StateSharding& state = stage.state;
  Sum reduced, exchanged, forwarded, gathered;
  if (state.count == 1) {
    for (const Bucket& bucket : layout.buckets_by(spec.buckets)) reduced.add(bucket.size());
    return {reduced.of("all-reduce", spec.wire)};
  }
  for (std::size_t b = 0; b < layout.buckets.size(); ++b) {
    const bool is_head_use = static_cast<int>(b) == layout.head_use;
    const std::int64_t size = layout.buckets[b].size(), slice = layout.kept[b].size;
    if (is_head_use && !state.gradients) continue;
    for (int i = 0; i < (state.gradients ? spec.microbatches : 1); ++i) reduced.add(size);
    exchanged.add(slice);
    if (is_head_use) continue;
    forwarded.add(slice);
    if (!state.weights) gathered.add(size);
  }
  if (state.weights) {
    const auto [forward, backward] = gathered_in(layout, state, order);
    for (const auto* units : {&forward, &backward})
      for (const int unit : *units)
        gathered.add(layout.buckets[static_cast<std::size_t>(unit)].size());
  }
  std::vector<PlannedCollectives> all{reduced.of("reduce-scatter", spec.wire)};
  if (replicas > state.count) all.push_back(exchanged.of("all-reduce"));
  if (state.twins) all.push_back(forwarded.of("all-to-all"));
  all.push_back(gathered.of("all-gather"));
  return all;
}

}  // namespace troupe::stages
