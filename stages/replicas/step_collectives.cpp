#include "stages/replicas/step_collectives.h"

#include <algorithm>
#include <span>

#include "stages/decoder/chunk/chunk_layers.h"
#include "stages/decoder/parameters/parameter_layout.h"
#include "stages/replicas/bucket_reduction.h"

namespace troupe::stages {
namespace {

/// Counts one more, of so many elements.
void add(PlannedCollectives& to, std::int64_t elements, tensor::DType dtype = tensor::DType::f32) {
  ++to.count;
  to.bytes += elements * static_cast<std::int64_t>(tensor::size_of(dtype));
}

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
  if (layer == model.num_hidden_layers) return "head";
  const bool has_experts = layout.has_experts(layout.buckets[static_cast<std::size_t>(bucket)]);
  return (has_experts ? "experts of layer " : "layer ") + std::to_string(layer);
}

/// Elements of those parameters of a bucket for which `is_one` holds.
template <typename IsOne>
std::int64_t elements_of(const ParameterLayout& layout, const Bucket& bucket, const IsOne& is_one) {
  std::int64_t elements = 0;
  for (int i = bucket.parameters.first; i < bucket.parameters.end; ++i) {
    const ParameterLayout::Entry& entry = layout.entries[static_cast<std::size_t>(i)];
    if (is_one(entry.info)) elements += entry.shape.num_elements();
  }
  return elements;
}

void keep_largest(std::int64_t& largest, std::int64_t elements) {
  largest = std::max(largest, elements);
}

}  // namespace

std::vector<std::vector<int>> reads_of(const StageSpec& stage, int chunk, Pass pass) {
  const ChunkSpec& spec = stage.chunks[static_cast<std::size_t>(chunk)];
  const ParameterLayout layout = lay_out_parameters(stage);
  const std::int64_t tokens = stage.rows().capacity;
  const ChunkLayers layers{
      .spec = spec,
      .sharding = stage.sharding,
      .recompute = stage.recompute,
      .form = sublayer_form(stage.model, stage.sharding.size),
      .head_is_in_parts = head_parts(stage.model, tokens, stage.sharding.size).are_divided,
      .routed = routed_layers(stage.model)};
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
  PlannedCollectives reduced{.operation = state.count == 1 ? "all-reduce" : "reduce-scatter"};
  PlannedCollectives experts = reduced;  // of those that some replicas hold alone, or few of them
  if (state.count == 1) {
    for (const Bucket& bucket : layout.buckets_by(spec.buckets))
      if (!layout.has_experts(bucket))
        add(reduced, bucket.size(), spec.wire);
      else if (replicas > stage.sharding.ep)
        add(experts, bucket.size(), spec.wire);
    std::vector<PlannedCollectives> all{reduced};
    if (experts.count > 0) all.push_back(experts);
    return all;
  }
  PlannedCollectives exchanged{"all-reduce"}, forwarded{"all-to-all"}, gathered{"all-gather"};
  PlannedCollectives gathered_experts = gathered;
  const auto add_gathered = [&](const Bucket& bucket) {
    const bool is_expert = layout.has_experts(bucket);
    if (state.count_of(is_expert) > 1) add(is_expert ? gathered_experts : gathered, bucket.size());
  };
  for (std::size_t b = 0; b < layout.buckets.size(); ++b) {
    const bool is_head_use = static_cast<int>(b) == layout.head_use;
    const std::int64_t size = layout.buckets[b].size(), slice = layout.kept[b].size;
    if (is_head_use && !state.gradients) continue;
    const bool is_expert = layout.has_experts(layout.buckets[b]);
    const bool is_shared = state.count_of(is_expert) > 1;
    for (int i = 0; is_shared && i < (state.gradients ? spec.microbatches : 1); ++i)
      add(is_expert ? experts : reduced, size, spec.wire);
    add(exchanged, slice);
    if (is_head_use) continue;
    add(forwarded, slice);
    if (!state.weights) add_gathered(layout.buckets[b]);
  }
  if (state.weights) {
    const auto [forward, backward] = gathered_in(layout, state, order);
    for (const auto* units : {&forward, &backward})
      for (const int unit : *units) add_gathered(layout.buckets[static_cast<std::size_t>(unit)]);
  }
  std::vector<PlannedCollectives> all{reduced};
  if (experts.count > 0) all.push_back(experts);
  if (replicas > state.count) all.push_back(exchanged);
  if (state.twins) all.push_back(forwarded);
  all.push_back(gathered);
  if (gathered_experts.count > 0) all.push_back(gathered_experts);
  return all;
}

GradientTraffic gradient_traffic(const BucketRule& rule, const StageSpec& stage) {
  const ParameterLayout layout = lay_out_parameters(stage);
  const auto buckets = layout.buckets_by(rule);
  const int replicas = stage.state.count;
  GradientTraffic most;
  most.at_once = static_cast<int>(std::min(BucketReduction::kUnderWay, buckets.size()));
  most.sums = std::ssize(layout.entries);
  std::vector<std::int64_t> sums(static_cast<std::size_t>(replicas)), expert_sums(sums);
  for (const Bucket& bucket : buckets) {
    keep_largest(most.bucket, bucket.size());
    keep_largest(most.norms, elements_of(layout, bucket, [&](const ParameterInfo& info) {
                   return sums_gradient(info, stage.sharding);
                 }));
    keep_largest(most.kv_heads, elements_of(layout, bucket, [](const ParameterInfo& info) {
                   return info.split == Split::kv_rows;
                 }));
    const bool is_expert = layout.has_experts(bucket);
    const auto slices = cut_into_slices(bucket, layout.pieces, stage.state.count_of(is_expert));
    for (std::size_t replica = 0; replicas > 1 && replica < slices.size(); ++replica) {
      keep_largest(most.slice, slices[replica].size());
      keep_largest(most.sums,
                   (is_expert ? expert_sums : sums)[replica] += slices[replica].pieces.count());
    }
  }
  // That is read, and those ahead.
  const int gathers = 1 + stage.state.prefetch;
  most.forward_gathers = std::min(gathers, static_cast<int>(layout.forward_slots.offsets.size()));
  most.backward_gathers = std::min(gathers, static_cast<int>(layout.backward_slots.offsets.size()));
  const auto is_embedding = [](const ParameterLayout::Entry& entry) {
    return entry.info.layer == kEmbeddingLayer;
  };
  const auto embedding = std::ranges::find_if(layout.entries, is_embedding);
  if (stage.model.tie_word_embeddings && !stage.model.adapter && layout.tied_size == 0 &&
      embedding != layout.entries.end())
    most.tied = embedding->shape.num_elements();
  return most;
}

}  // namespace troupe::stages
