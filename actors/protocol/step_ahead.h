#pragma once

#include "actors/protocol/votes/replica_answers.h"

namespace troupe::actors {

/// Whether the step after the one under way is ordered before that is committed (updates_ahead()).
class StepAhead {
 public:
  /// A step is under way. The one after it may be ordered once all replicas have said that copies
  /// of the state before are held; at once if `is_safe` says that nobody tells of them.
  void begin(int num_replicas, bool is_safe) {
    is_ordered_ = false;
    is_safe_ = is_safe;
    copied_.begin(num_replicas);
  }
  void copied(int replica) {
    copied_.add(replica);
    is_safe_ |= copied_.complete();
  }
  /// Notes with which factor the step under way is committed: where one was clipped, the next one
  /// is likely to be, too, and all that is run ahead of its commit would be for nothing.
  void committed(bool stands) { stood_ = stands; }
  void order() { is_ordered_ = true; }
  /// No step is under way any more.
  void end() { is_ordered_ = false; }

  bool is_ordered() const { return is_ordered_; }
  bool may_be_ordered() const { return is_safe_ && stood_ && !is_ordered_; }

 private:
  bool is_ordered_ = false;
  bool is_safe_ = false;
  bool stood_ = true;
  ReplicaAnswers copied_;
};

}  // namespace troupe::actors
