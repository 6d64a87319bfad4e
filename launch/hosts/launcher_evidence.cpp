#include "launch/hosts/launcher_evidence.h"

#include <algorithm>

namespace troupe::launch {

LauncherEvidence::Verdict LauncherEvidence::take(
    const std::vector<std::optional<actors::AgentState>>& answers, double asked_s) {
  if (!first_asked_s_) first_asked_s_ = asked_s;
  std::size_t answered = 0;
  bool all_silent = true;
  for (const auto& state : answers) {
    if (!state) continue;
    ++answered;
    if (state->is_orphaned) continue;
    // It answered after it was asked, so it has heard the launcher at this time or later.
    if (asked_s - state->silent_s > *first_asked_s_) return Verdict::lives;
    all_silent = all_silent && state->silent_s > silent_s_;
  }
  if (!all_silent) return Verdict::open;
  return may_live_ && 2 * answered < answers.size() ? Verdict::alone : Verdict::gone;
}

}  // namespace troupe::launch
