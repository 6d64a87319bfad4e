#include "stages/replicas/shared_buckets.h"

#include <algorithm>

#include "stages/stage/gradient_pieces.h"

namespace troupe::stages {
namespace {

using tensor::Tensor;

/// The buckets of a stage whose gradients and weights are all whole.
std::vector<StateBucket> whole_buckets(const DataParallelSpec& spec, const Stage& stage) {
  std::vector<std::int64_t> offsets;
  std::vector<bool> is_expert;
  for (const Parameter& parameter : stage.parameters()) {
    offsets.push_back(parameter.offset);
    is_expert.push_back(parameter.is_expert);
  }
  std::vector<StateBucket> buckets;
  for (const Bucket& range : cut_into_buckets(offsets, stage.gradients().num_elements(),
                                              spec.buckets, expert_seams(is_expert))) {
    const Tensor gradient = elements_of(stage.gradients(), range.begin, range.size());
    buckets.push_back({.range = range,
                       .is_expert = is_expert[static_cast<std::size_t>(range.parameters.first)],
                       .gradient = gradient,
                       .kept_gradient = gradient});
  }
  return buckets;
}

void divide(SharedBucket& bucket, std::span<const GradientPiece> pieces,
            const StateSharding& state) {
  const bool is_expert = bucket.memory.is_expert;
  bucket.slices = cut_into_slices(bucket.range(), pieces, state.count_of(is_expert));
  for (const Slice& slice : bucket.slices) bucket.counts.push_back(slice.size());
  const auto count_of = [&](int replica) {
    return bucket.counts[static_cast<std::size_t>(state.slice_of(replica, is_expert))];
  };
  bucket.own = state.slice_of(state.index, is_expert);
  const auto n = static_cast<std::size_t>(state.count);
  bucket.sent.resize(n);
  bucket.received.resize(n);
  bucket.sent[static_cast<std::size_t>((state.index + state.ep) % state.count)] =
      count_of(state.index);
  bucket.received[static_cast<std::size_t>(state.twin())] = count_of(state.twin());
}

}  // namespace

int expert_sharing(const Stage& stage, const GradientGroups& groups) {
  if (std::ranges::none_of(stage.parameters(), &Parameter::is_expert)) return 1;
  return groups.replicas.group->size() / (groups.experts.group ? groups.experts.group->size() : 1);
}

std::vector<SharedBucket> shared_buckets(const DataParallelSpec& spec, const Stage& stage,
                                         const GradientGroups& groups) {
  std::vector<SharedBucket> all;
  if (stage.buckets().empty()) {
    for (const StateBucket& bucket : whole_buckets(spec, stage)) all.push_back({.memory = bucket});
    return all;
  }
  const auto pieces = cut_into_pieces(stage.parameters());
  const StateSharding state{.count = groups.replicas.group->size(),
                            .index = groups.replicas.group->member(),
                            .twins = true,
                            .ep = expert_sharing(stage, groups)};
  for (const StateBucket& bucket : stage.buckets()) {
    all.push_back({.memory = bucket});
    divide(all.back(), pieces, state);
  }
  return all;
}

Tensor elements_of(const Tensor& x, std::int64_t begin, std::int64_t size) {
  const auto skipped = static_cast<std::size_t>(begin) * tensor::size_of(x.dtype);
  return {x.as<std::byte>() + skipped, x.dtype, {size}};
}

}  // namespace troupe::stages
