#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "actors/messages/takeover_messages.h"

namespace troupe::launch {

/// Whether the launcher of a run is there, by what the agents of its hosts say of it when they are
/// asked again and again. A pure value; times are of the asking process's monotonic clock.
class LauncherEvidence {
 public:
  enum class Verdict {
    open,   ///< they are to be asked again
    lives,  ///< one of them hears it
    gone,   ///< none of those who answer does
    alone,  ///< so few answer that the others may still hear it
  };
  /// A launcher that none of them has heard for `silent_s` is gone. `may_live`: something else,
  /// such as its lock, says that it may be there, so that at least half of them must answer.
  LauncherEvidence(double silent_s, bool may_live) : silent_s_(silent_s), may_live_(may_live) {}

  /// Takes what they have answered to a question that was asked at this time.
  Verdict take(const std::vector<std::optional<actors::AgentState>>& answers, double asked_s);

 private:
  const double silent_s_;
  const bool may_live_;
  std::optional<double> first_asked_s_;
};

}  // namespace troupe::launch
