#include "schedules/plan/plan.h"

namespace troupe::schedules {

Purpose purpose_of(const Plan& plan) {
  for (const std::vector<Action>& order : plan.actions) {
    for (const Action& action : order) {
      if (action.op != Op::F) return Purpose::training;
    }
  }
  return Purpose::forward_only;
}

std::uint64_t digest(const Plan& plan) {
  std::uint64_t hash = 14695981039346656037u;
  for (const char letter : to_csv(plan)) {
    hash = (hash ^ static_cast<unsigned char>(letter)) * 1099511628211u;
  }
  return hash;
}

}  // namespace troupe::schedules
