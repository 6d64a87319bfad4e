#include "stages/replicas/slice_norms.h"

#include <algorithm>
#include <numeric>

namespace troupe::stages {

SliceNorms::SliceNorms(const Stage& stage, std::span<const SharedBucket> buckets,
                       const GradientGroups& groups, tensor::Device& device)
    : buckets_(buckets),
      squares_(stage.parameters(), device),
      sharers_{{.group = groups.replicas.group}},
      gathered_(
          device.allocate(squares_.pieces().size() * sizeof(double), tensor::MemoryKind::pinned)) {
  const auto is_expert = [](const SharedBucket& bucket) { return bucket.memory.is_expert; };
  if (std::ranges::any_of(buckets, is_expert))
    sharers_.push_back({.group = groups.experts.group, .of_experts = true});
  for (Sharers& sharers : sharers_) {
    const int members = sharers.group ? sharers.group->size() : 1;
    for (int member = 0; member < members; ++member) {
      std::int64_t& sums = sharers.sums_of.emplace_back();
      each_run(sharers, member, [&](const PieceRange& run) { sums += run.count(); });
    }
  }
}

std::int64_t SliceNorms::bytes(std::size_t num_pieces) {
  return 2 * GradientSquares::bytes(num_pieces);
}

template <typename Body>
void SliceNorms::each_run(const Sharers& sharers, int member, const Body& body) const {
  for (const SharedBucket& bucket : buckets_)
    if (!bucket.memory.is_head_use && bucket.memory.is_expert == sharers.of_experts)
      body(bucket.slices[static_cast<std::size_t>(member)].pieces);
}

void SliceNorms::sum(tensor::Stream& stream, std::span<double> out) {
  for (const Sharers& sharers : sharers_) sum(stream, sharers);
  squares_.add_up(out);
}

void SliceNorms::sum(tensor::Stream& stream, const Sharers& sharers) {
  const int self = sharers.group ? sharers.group->member() : 0;
  each_run(sharers, self, [&](const PieceRange& run) { squares_.sum(stream, run); });
  stream.synchronize();
  if (!sharers.group) return;
  const std::vector<std::int64_t>& sums_of = sharers.sums_of;
  const std::int64_t own_begin = std::accumulate(sums_of.begin(), sums_of.begin() + self, 0LL);
  auto* const all = static_cast<double*>(gathered_.data());
  const auto sums = [&](const PieceRange& run) { return squares_.sums(run).as<double>(); };
  double* next = all + own_begin;
  each_run(sharers, self,
           [&](const PieceRange& run) { next = std::copy_n(sums(run), run.count(), next); });
  const auto f64 = tensor::DType::f64;
  const std::int64_t own_count = sums_of[static_cast<std::size_t>(self)];
  sharers.group
      ->all_gather(stream, {all + own_begin, f64, {own_count}},
                   gathered_.view(f64, {std::accumulate(sums_of.begin(), sums_of.end(), 0LL)}),
                   sums_of)
      ->wait();
  const double* from = all;
  for (int member = 0; member < sharers.group->size(); ++member)
    each_run(sharers, member, [&](const PieceRange& run) {
      std::copy_n(from, run.count(), sums(run));
      from += run.count();
    });
}

}  // namespace troupe::stages
