#include "stages/corpus/samples/document_batches.h"

#include <algorithm>
#include <numeric>

#include "tensor/device/ops.h"
#include "tensor/errors/error.h"

namespace troupe::stages {
namespace {

template <typename Number>
std::size_t size(Number number) {
  return static_cast<std::size_t>(number);
}

/// Lanes of all replicas.
int num_lanes(const FeedSpec& spec) {
  return spec.replicas * spec.lanes;
}

}  // namespace

DocumentBatches::DocumentBatches(const DataFeed& feed, std::int64_t row_step)
    : feed_(&feed),
      row_step_(row_step),
      samples_(size(feed.spec().global)),
      partition_(samples_.size(), static_cast<int>(feed.spec().global / feed.spec().micro)) {
  TROUPE_ASSERT(feed.spec().documents != Documents::joined);
  TROUPE_ASSERT(!is_packed() || row_step % feed.spec().lanes == 0);
  if (is_packed() && feed.spec().lanes_alike)
    rows_of_all_.resize(size(feed.spec().global / feed.spec().micro / num_lanes(feed.spec())));
}

void DocumentBatches::begin(std::int64_t step) {
  num_targets_ = 0;
  for (std::size_t n = 0; n < samples_.size(); ++n) {
    samples_[n] = feed_->sample(step, static_cast<std::int64_t>(n));
    num_targets_ += samples_[n].trained();
  }
  if (is_packed()) partition_.deal(samples_);
  find_rows_of_all();
}

void DocumentBatches::find_rows_of_all() {
  const FeedSpec& spec = feed_->spec();
  for (std::size_t m = 0; m < rows_of_all_.size(); ++m) {
    rows_of_all_[m] = 0;
    for (int lane = 0; lane < num_lanes(spec); ++lane)
      rows_of_all_[m] =
          std::max(rows_of_all_[m],
                   own_rows_of_lane(lane / spec.lanes, static_cast<int>(m), lane % spec.lanes));
  }
}

std::span<const std::int32_t> DocumentBatches::samples_of_lane(int replica, int microbatch,
                                                               int lane) const {
  const FeedSpec& spec = feed_->spec();
  const int of_step = replica * spec.lanes + lane;
  return partition_.microbatch(
      of_step * static_cast<int>(spec.global / num_lanes(spec) / spec.micro) + microbatch);
}

std::int64_t DocumentBatches::rows_of_lane(int replica, int microbatch, int lane) const {
  return rows_of_all_.empty() ? own_rows_of_lane(replica, microbatch, lane)
                              : rows_of_all_[size(microbatch)];
}

std::int64_t DocumentBatches::own_rows_of_lane(int replica, int microbatch, int lane) const {
  std::int64_t rows = 0;
  for (const std::int32_t n : samples_of_lane(replica, microbatch, lane))
    rows += samples_[size(n)].targets;
  const std::int64_t step = row_step_ / feed_->spec().lanes;
  return (rows + step - 1) / step * step;
}

DocumentBatches::Rows DocumentBatches::lay_out(int replica, int microbatch,
                                               std::span<std::int32_t> starts,
                                               std::span<std::int32_t> positions,
                                               std::span<std::int32_t> real) const {
  const std::int64_t seq_len = feed_->spec().seq_len;
  Rows out;
  std::ranges::fill(real, 0);
  const auto add = [&](std::int64_t row, std::int64_t length) {
    starts[size(out.documents++)] = static_cast<std::int32_t>(row);
    const auto places = positions.subspan(size(row), size(length));
    std::iota(places.begin(), places.end(), 0);
    out.rows = row + length;
  };
  for_each_sample(replica, microbatch, [&](const Sample& sample, std::int64_t row) {
    while (is_packed() && out.rows < row) add(out.rows, std::min(row - out.rows, seq_len));
    add(row, sample.targets);
    if (!real.empty()) std::ranges::fill(real.subspan(size(row), size(sample.targets)), 1);
    if (!is_packed() && sample.targets < seq_len)
      add(row + sample.targets, seq_len - sample.targets);
  });
  starts[size(out.documents)] = static_cast<std::int32_t>(out.rows);
  if (!is_packed()) return out;
  const std::int64_t used = out.rows;
  out.rows = rows_of_all_.empty() ? (used + row_step_ - 1) / row_step_ * row_step_
                                  : feed_->spec().lanes * rows_of_all_[size(microbatch)];
  std::ranges::fill(positions.subspan(size(used), size(out.rows - used)), 0);
  return out;
}

void DocumentBatches::read(int replica, int microbatch, std::span<std::int32_t> ids,
                           std::span<std::int32_t> targets) const {
  std::ranges::fill(ids, 0);
  std::ranges::fill(targets, tensor::kNoTarget);
  for_each_sample(replica, microbatch, [&](const Sample& sample, std::int64_t row) {
    feed_->read(sample, ids.subspan(size(row), size(sample.targets)),
                targets.subspan(size(row), size(sample.targets)));
  });
}

}  // namespace troupe::stages
