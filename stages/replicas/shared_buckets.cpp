#include "stages/replicas/shared_buckets.h"

#include "stages/stage/gradient_pieces.h"

namespace troupe::stages {
namespace {

using tensor::Tensor;

/// The buckets of a stage whose gradients and weights are all whole.
std::vector<StateBucket> whole_buckets(const DataParallelSpec& spec, const Stage& stage) {
  std::vector<std::int64_t> offsets;
  for (const Parameter& parameter : stage.parameters()) offsets.push_back(parameter.offset);
  std::vector<StateBucket> buckets;
  for (const Bucket& range :
       cut_into_buckets(offsets, stage.gradients().num_elements(), spec.buckets)) {
    const Tensor gradient = elements_of(stage.gradients(), range.begin, range.size());
    buckets.push_back({.range = range, .gradient = gradient, .kept_gradient = gradient});
  }
  return buckets;
}

void divide(SharedBucket& bucket, std::span<const GradientPiece> pieces, int count, int self) {
  bucket.slices = cut_into_slices(bucket.range(), pieces, count);
  for (const Slice& slice : bucket.slices) bucket.counts.push_back(slice.size());
  const auto own = static_cast<std::size_t>(self), n = static_cast<std::size_t>(count);
  bucket.sent.resize(n);
  bucket.received.resize(n);
  bucket.sent[(own + 1) % n] = bucket.counts[own];
  bucket.received[(own + n - 1) % n] = bucket.counts[(own + n - 1) % n];
}

}  // namespace

std::vector<SharedBucket> shared_buckets(const DataParallelSpec& spec, const Stage& stage,
                                         const tensor::ProcessGroup* replicas) {
  std::vector<SharedBucket> all;
  if (stage.buckets().empty()) {
    for (const StateBucket& bucket : whole_buckets(spec, stage)) all.push_back({.memory = bucket});
    return all;
  }
  const auto pieces = cut_into_pieces(stage.parameters());
  for (const StateBucket& bucket : stage.buckets()) {
    all.push_back({.memory = bucket});
    divide(all.back(), pieces, replicas->size(), replicas->member());
  }
  return all;
}

Tensor elements_of(const Tensor& x, std::int64_t begin, std::int64_t size) {
  const auto skipped = static_cast<std::size_t>(begin) * tensor::size_of(x.dtype);
  return {x.as<std::byte>() + skipped, x.dtype, {size}};
}

}  // namespace troupe::stages
