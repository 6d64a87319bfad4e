#pragma once

#include <string>
#include <vector>

#include "actors/protocol/protocol_events.h"
#include "actors/protocol/votes/replica_answers.h"

namespace troupe::actors {

/// The replicas' votes on the step under way, the one after the last committed: their losses and
/// the gradient's norm. Nothing is used before all replicas have voted.
class StepVotes {
 public:
  /// Begins to collect the votes on a step that is ordered.
  void begin(int num_replicas);
  void add(const ReplicaPrepared& vote);
  bool complete() const { return answers_.complete(); }

  /// The step's targets; 0 if no vote counts them.
  std::int64_t targets() const { return targets_; }
  /// The mean loss over so many targets; the replicas' sums are added in the order of replicas.
  double loss(std::int64_t targets) const;
  /// The norm of the whole model's gradient.
  double grad_norm() const;
  /// Why the step must not be committed; empty: it may be.
  std::string not_finite(std::int64_t targets) const;

 private:
  ReplicaAnswers answers_;
  std::vector<double> loss_sums_;  // by replica
  std::int64_t targets_ = 0;
  double squared_norm_ = 0;
  /// From the first vote that is not finite, or the first that is so by itself; empty: none.
  std::string not_finite_;
  bool is_own_ = false;
};

}  // namespace troupe::actors
