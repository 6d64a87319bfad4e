#include "stages/replicas/slice_norms.h"

#include <algorithm>
#include <numeric>

namespace troupe::stages {

SliceNorms::SliceNorms(const Stage& stage, std::span<const SharedBucket> buckets,
                       tensor::ProcessGroup& replicas, tensor::Device& device)
    : buckets_(buckets),
      replicas_(replicas),
      squares_(stage.parameters(), device),
      sums_of_(static_cast<std::size_t>(replicas.size())),
      gathered_(
          device.allocate(squares_.pieces().size() * sizeof(double), tensor::MemoryKind::pinned)) {
  for (std::size_t replica = 0; replica < sums_of_.size(); ++replica)
    each_run(static_cast<int>(replica),
             [&](const PieceRange& run) { sums_of_[replica] += run.count(); });
}

std::int64_t SliceNorms::bytes(std::size_t num_pieces) {
  return 2 * GradientSquares::bytes(num_pieces);
}

template <typename Body>
void SliceNorms::each_run(int replica, const Body& body) const {
  for (const SharedBucket& bucket : buckets_)
    if (!bucket.memory.is_head_use) body(bucket.slices[static_cast<std::size_t>(replica)].pieces);
}

void SliceNorms::sum(tensor::Stream& stream, std::span<double> out) {
  const int self = replicas_.member();
  each_run(self, [&](const PieceRange& run) { squares_.sum(stream, run); });
  stream.synchronize();
  const std::int64_t own_begin = std::accumulate(sums_of_.begin(), sums_of_.begin() + self, 0LL);
  auto* const all = static_cast<double*>(gathered_.data());
  const auto sums = [&](const PieceRange& run) { return squares_.sums(run).as<double>(); };
  double* next = all + own_begin;
  each_run(self, [&](const PieceRange& run) { next = std::copy_n(sums(run), run.count(), next); });
  const auto f64 = tensor::DType::f64;
  const std::int64_t own_count = sums_of_[static_cast<std::size_t>(self)];
  replicas_
      .all_gather(stream, {all + own_begin, f64, {own_count}},
                  gathered_.view(f64, {std::ssize(squares_.pieces())}), sums_of_)
      ->wait();
  const double* from = all;
  for (int replica = 0; replica < replicas_.size(); ++replica)
    each_run(replica, [&](const PieceRange& run) {
      std::copy_n(from, run.count(), sums(run));
      from += run.count();
    });
  squares_.add_up(out);
}

}  // namespace troupe::stages
