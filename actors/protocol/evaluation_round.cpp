#include "actors/protocol/evaluation_round.h"

#include <algorithm>
#include <iterator>
#include <numeric>

namespace troupe::actors {
namespace {

/// The number of batches that are ordered at a time: one more than is computed, so that the
/// pipeline stays full, and no more, because a stop waits for them.
constexpr std::int64_t kBatchesAtOnce = 2;

}  // namespace

void EvaluationRound::begin(std::int64_t num_batches, int num_replicas) {
  *this = {};
  num_batches_ = num_batches;
  loss_sums_.assign(static_cast<std::size_t>(num_replicas), 0.0);
}

std::optional<std::int64_t> EvaluationRound::order() {
  if (num_ordered_ >= std::min(num_batches_, num_done_ + kBatchesAtOnce)) return std::nullopt;
  return num_ordered_++;
}

void EvaluationRound::add(std::int64_t batch, int replica, const Loss& loss) {
  if (batch < num_done_) return;
  waiting_[{batch, replica}] = loss;
  for (; next_is_done(); ++num_done_) {
    targets_ += waiting_.at({num_done_, 0}).targets;
    for (std::size_t r = 0; r < loss_sums_.size(); ++r)
      loss_sums_[r] += waiting_.extract({num_done_, static_cast<int>(r)}).mapped().sum;
  }
}

bool EvaluationRound::next_is_done() const {
  const auto begin = waiting_.lower_bound({num_done_, 0});
  const auto end = waiting_.lower_bound({num_done_ + 1, 0});
  return !loss_sums_.empty() && std::distance(begin, end) == std::ssize(loss_sums_);
}

double EvaluationRound::loss_sum() const {
  return std::accumulate(loss_sums_.begin(), loss_sums_.end(), 0.0);
}

}  // namespace troupe::actors
