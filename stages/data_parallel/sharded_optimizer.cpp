#include "stages/data_parallel/sharded_optimizer.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <utility>

#include "stages/parameters.h"
#include "tensor/error.h"

namespace troupe::stages {

using tensor::Tensor;

namespace {

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

ShardedOptimizer::ShardedOptimizer(const DataParallelSpec& spec, Stage& stage,
                                   GradientGroups groups, tensor::Device& device)
    : BucketReduction(spec, stage, std::move(groups), device),
      overlaps_gather_(spec.overlaps_gather),
      squares_(stage.parameters(), stage.gradients(), device),
      sums_of_(static_cast<std::size_t>(replicas()->size())),
      gathered_(
          device.allocate(squares_.pieces().size() * sizeof(double), tensor::MemoryKind::pinned)) {
  for (std::size_t replica = 0; replica < sums_of_.size(); ++replica)
    each_run(static_cast<int>(replica),
             [&](const PieceRange& run) { sums_of_[replica] += run.count(); });
  under_way_.reserve(buckets().size());
}

ShardedOptimizer::~ShardedOptimizer() {
  under_way_.clear();
  try {
    stream().synchronize();  // out of the weights
  } catch (const Error&) {
    // The device has failed, and runs nothing more.
  }
}

std::int64_t ShardedOptimizer::bytes(const DataParallelSpec& spec, const StageSpec& stage,
                                     int replicas) {
  const std::size_t num_pieces = pieces_of(lay_out_parameters(stage)).size();
  return BucketReduction::bytes(spec, stage, replicas) + 2 * GradientSquares::bytes(num_pieces);
}

template <typename Body>
void ShardedOptimizer::each_run(int replica, const Body& body) const {
  for (const Shares& shares : shares())
    body(shares.slices[static_cast<std::size_t>(replica)].pieces);
}

void ShardedOptimizer::squared_norms(std::span<double> out) {
  const int self = replicas()->member();
  each_run(self, [&](const PieceRange& run) { squares_.sum(stream(), run); });
  stream().synchronize();
  const std::int64_t own_begin = std::accumulate(sums_of_.begin(), sums_of_.begin() + self, 0LL);
  auto* const all = static_cast<double*>(gathered_.data());
  const auto sums = [&](const PieceRange& run) { return squares_.sums(run).as<double>(); };
  double* next = all + own_begin;
  each_run(self, [&](const PieceRange& run) { next = std::copy_n(sums(run), run.count(), next); });
  const auto f64 = tensor::DType::f64;
  const std::int64_t own_count = sums_of_[static_cast<std::size_t>(self)];
  replicas()
      ->all_gather_uneven(stream(), {all + own_begin, f64, {own_count}},
                          gathered_.view(f64, {std::ssize(squares_.pieces())}), sums_of_)
      ->wait();
  const double* from = all;
  for (int replica = 0; replica < replicas()->size(); ++replica)
    each_run(replica, [&](const PieceRange& run) {
      std::copy_n(from, run.count(), sums(run));
      from += run.count();
    });
  squares_.add_up(out);
}

/// Gathers each bucket's weights into their places. Padding has the same zeros everywhere.
void ShardedOptimizer::share_weights() {
  gathers()->clear();
  const auto self = static_cast<std::size_t>(replicas()->member());
  for (std::size_t b = 0; b < buckets().size(); ++b) {
    const Bucket& bucket = buckets()[b];
    const Slice& own = shares()[b].slices[self];
    const Tensor whole = weights(bucket.begin, bucket.size());
    under_way_.push_back({.work = replicas()->all_gather_uneven(
                              stream(), weights(own.begin, own.size()), whole, shares()[b].counts),
                          .began_s = now_s()});
    ++gathers()->count;
    gathers()->bytes += static_cast<std::int64_t>(whole.num_bytes());
  }
  if (!overlaps_gather_) complete_weights();
}

void ShardedOptimizer::complete_weights() {
  if (under_way_.empty()) return;
  for (const Gather& gather : under_way_) {
    const double begin_s = now_s();
    gather.work->wait();
    gathers()->exposed_s += now_s() - begin_s;
    gathers()->time_s += std::max(0.0, gather.work->finished_s() - gather.began_s);
  }
  under_way_.clear();
  stage().weights_changed();
}

Tensor ShardedOptimizer::weights(std::int64_t begin, std::int64_t size) {
  return {stage().weights().as<float>() + begin, tensor::DType::f32, {size}};
}

}  // namespace troupe::stages
