#include "actors/protocol/votes/step_votes.h"

#include <cmath>
#include <numeric>

namespace troupe::actors {

void StepVotes::begin(int num_replicas) {
  answers_.begin(num_replicas);
  loss_sums_.assign(static_cast<std::size_t>(num_replicas), 0.0);
  targets_ = 0;
  squared_norm_ = 0;
  not_finite_.clear();
  is_own_ = false;
}

void StepVotes::add(const ReplicaPrepared& vote) {
  answers_.add(vote.replica);
  loss_sums_[static_cast<std::size_t>(vote.replica)] = vote.loss_sum;
  if (vote.replica == 0) {  // all replicas have the same
    targets_ = vote.targets;
    squared_norm_ = vote.squared_norm;
  }
  if (not_finite_.empty() || (vote.is_own && !is_own_)) {
    not_finite_ = vote.not_finite;
    is_own_ = vote.is_own;
  }
}

double StepVotes::loss(std::int64_t targets) const {
  return std::accumulate(loss_sums_.begin(), loss_sums_.end(), 0.0) / static_cast<double>(targets);
}

double StepVotes::grad_norm() const {
  return std::sqrt(squared_norm_);
}

std::string StepVotes::not_finite(std::int64_t targets) const {
  if (!not_finite_.empty()) return not_finite_;
  const bool finite = std::isfinite(loss(targets)) && std::isfinite(grad_norm());
  return finite ? "" : "the sum over the stages is not finite";
}

}  // namespace troupe::actors
