#include "actors/protocol/votes/evaluation_round.h"

#include <algorithm>
#include <iterator>
#include <numeric>

namespace troupe::actors {
namespace {

/// The number of batches that are ordered at a time: one more than is computed, so that the
/// pipeline stays full, and no more, because a stop waits for them.
constexpr std::int64_t kBatchesAtOnce = 2;

}  // namespace

void EvaluationRound::begin(std::span<const std::int64_t> batches_of_sets, int num_replicas) {
  *this = {};
  num_replicas_ = num_replicas;
  for (const std::int64_t batches : batches_of_sets)
    sets_.push_back({.end = num_batches_ += batches,
                     .loss_sums = std::vector<double>(static_cast<std::size_t>(num_replicas))});
}

std::optional<std::int64_t> EvaluationRound::order() {
  if (num_ordered_ >= std::min(num_batches_, num_done_ + kBatchesAtOnce)) return std::nullopt;
  return num_ordered_++;
}

void EvaluationRound::add(std::int64_t batch, int replica, const Loss& loss) {
  if (batch < num_done_) return;
  waiting_[{batch, replica}] = loss;
  for (; next_is_done(); ++num_done_) {
    Set& set = *std::ranges::upper_bound(sets_, num_done_, {}, &Set::end);
    set.targets += waiting_.at({num_done_, 0}).targets;
    for (std::size_t r = 0; r < set.loss_sums.size(); ++r)
      set.loss_sums[r] += waiting_.extract({num_done_, static_cast<int>(r)}).mapped().sum;
  }
}

bool EvaluationRound::next_is_done() const {
  const auto begin = waiting_.lower_bound({num_done_, 0});
  const auto end = waiting_.lower_bound({num_done_ + 1, 0});
  return num_replicas_ > 0 && std::distance(begin, end) == num_replicas_;
}

std::vector<double> EvaluationRound::mean_losses() const {
  std::vector<double> losses;
  for (const Set& set : sets_)
    losses.push_back(std::accumulate(set.loss_sums.begin(), set.loss_sums.end(), 0.0) /
                     static_cast<double>(set.targets));
  return losses;
}

}  // namespace troupe::actors
