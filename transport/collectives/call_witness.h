#pragma once

#include "tensor/device/process_group.h"

namespace troupe::transport {

/// Keeps in mind what this member of a group calls in a group of the members' devices. That one
/// does not compare the calls: members whose calls do not fit stand still, without a word.
class CallWitness {
 public:
  virtual ~CallWitness() = default;
  /// Records a call. All members record theirs in the order in which they make them.
  virtual void record(const tensor::CollectiveCall& call) = 0;
  /// Tells the other members the last calls. One that has called something else in place of one of
  /// them aborts the group, with an error that names the first such call. A member that has not
  /// called so far says nothing. Waits for nobody. Callable from any thread.
  virtual void tell_calls() = 0;
};

}  // namespace troupe::transport
