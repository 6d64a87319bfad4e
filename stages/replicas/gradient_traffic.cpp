#include "stages/replicas/gradient_traffic.h"

#include <algorithm>
#include <vector>

#include "stages/decoder/parameters/parameter_layout.h"
#include "stages/replicas/bucket_reduction.h"

namespace troupe::stages {
namespace {

/// Elements of those parameters of a bucket that the shards divide so.
std::int64_t elements_of(const ParameterLayout& layout, const Bucket& bucket, Split split) {
  std::int64_t elements = 0;
  for (int i = bucket.parameters.first; i < bucket.parameters.end; ++i) {
    const ParameterLayout::Entry& entry = layout.entries[static_cast<std::size_t>(i)];
    if (entry.info.split == split) elements += entry.shape.num_elements();
  }
  return elements;
}

void keep_largest(std::int64_t& largest, std::int64_t elements) {
  largest = std::max(largest, elements);
}

}  // namespace

GradientTraffic gradient_traffic(const BucketRule& rule, const StageSpec& stage) {
  const ParameterLayout layout = lay_out_parameters(stage);
  const auto buckets = layout.buckets_by(rule);
  const int replicas = stage.state.count;
  GradientTraffic most;
  most.at_once = static_cast<int>(std::min(BucketReduction::kUnderWay, buckets.size()));
  most.sums = std::ssize(layout.entries);
  std::vector<std::int64_t> sums(static_cast<std::size_t>(replicas));
  for (const Bucket& bucket : buckets) {
    keep_largest(most.bucket, bucket.size());
    keep_largest(most.norms, elements_of(layout, bucket, Split::none));
    keep_largest(most.kv_heads, elements_of(layout, bucket, Split::kv_rows));
    const auto slices = cut_into_slices(bucket, layout.pieces, replicas);
    for (std::size_t replica = 0; replicas > 1 && replica < slices.size(); ++replica) {
      keep_largest(most.slice, slices[replica].size());
      keep_largest(most.sums, sums[replica] += slices[replica].pieces.count());
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
  if (stage.model.tie_word_embeddings && layout.tied_size == 0 && embedding != layout.entries.end())
    most.tied = embedding->shape.num_elements();
  return most;
}

}  // namespace troupe::stages
