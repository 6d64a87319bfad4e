#include "stages/data_parallel/step_collectives.h"

#include <span>

#include "stages/part_parameters.h"

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

/// The gathers of one lane: those of buckets that their slot does not have already.
void add_gathers(const ParameterLayout& layout, const BucketSlots& slots,
                 std::span<const int> order, Sum& sum) {
  std::vector<int> in_slot(slots.offsets.size(), -1);
  for (const int bucket : order) {
    const auto number = static_cast<std::size_t>(bucket);
    int& held = in_slot[static_cast<std::size_t>(slots.slot_of[number])];
    if (held == bucket) continue;
    held = bucket;
    sum.add(layout.buckets[number].size());
  }
}

}  // namespace

std::vector<std::vector<int>> reads_of(const StageSpec& stage, int chunk, Pass pass) {
  const ChunkSpec& spec = stage.chunks[static_cast<std::size_t>(chunk)];
  const PartParameters parts(stage.model, lay_out_parameters(stage));
  std::vector<std::vector<int>> reads;
  for (const Node& node : row_of(spec, pass, stage.sharding, stage.recompute).nodes) {
    reads.emplace_back();
    const int layer = spec.first_layer + static_cast<int>(node.block);
    if (stage.state.weights && reads_weights(node))
      reads.back() = parts.buckets_of(node.part, layer);
  }
  return reads;
}

std::vector<PlannedCollectives> plan_collectives(const DataParallelSpec& spec,
                                                 const StageSpec& stage, const UnitOrder& order,
                                                 int replicas) {
  if (replicas == 1) return {};
  const ParameterLayout layout = lay_out_parameters(stage);
  const StateSharding& state = stage.state;
  Sum reduced, exchanged, forwarded, gathered;
  if (state.count == 1) {
    std::vector<std::int64_t> offsets;
    for (const auto& entry : layout.entries) offsets.push_back(entry.offset);
    for (const Bucket& bucket : cut_into_buckets(offsets, layout.size, spec.buckets))
      reduced.add(bucket.size());
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
    add_gathers(layout, layout.forward_slots, order.forward, gathered);
    if (state.reshards) add_gathers(layout, layout.backward_slots, order.backward, gathered);
  }
  std::vector<PlannedCollectives> all{reduced.of("reduce-scatter", spec.wire)};
  if (replicas > state.count) all.push_back(exchanged.of("all-reduce"));
  if (state.twins) all.push_back(forwarded.of("all-to-all"));
  all.push_back(gathered.of("all-gather"));
  return all;
}

}  // namespace troupe::stages
