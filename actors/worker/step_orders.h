#pragma once

#include <optional>

#include "actors/messages/messages.h"

namespace troupe::actors {

/// The director, as a rank's step hears from it and tells it while the step is computed. Called by
/// the compute thread.
class StepOrders {
 public:
  virtual ~StepOrders() = default;
  /// Blocks until the next order has come, and takes it if it is a Commit. None: the rank is to do
  /// something else.
  virtual std::optional<Commit> await_commit() = 0;
  virtual void tell(const Copied& answer) = 0;
};

}  // namespace troupe::actors
