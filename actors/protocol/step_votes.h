#pragma once

#include <string>
#include <vector>

#include "actors/protocol/protocol_events.h"
#include "actors/protocol/replica_answers.h"

namespace troupe::actors {

/// The step under way, the one after the last committed: what the replicas say of their loss and of
/// the gradient. Nothing of it is used before the last one has voted.
class StepVotes {
 public:
  /// The step is ordered.
  void begin(int num_replicas);
  void add(const ReplicaPrepared& vote);
  bool complete() const { return answers_.complete(); }

  /// Mean over the step's tokens, of the replicas' sums added in their order.
  double loss(double global_tokens) const;
  /// The norm of the whole model's gradient.
  double grad_norm() const;
  /// Why the step must not be committed; empty: it may be.
  std::string not_finite(double global_tokens) const;

 private:
  ReplicaAnswers answers_;
  std::vector<double> loss_sums_;  // by replica
  double squared_norm_ = 0;
  std::string not_finite_;  // the first replica's word
};

}  // namespace troupe::actors
