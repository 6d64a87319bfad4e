#include "schedules/generators/slots.h"

#include <algorithm>

namespace troupe::schedules {

std::vector<Action> by_slot(std::vector<Slotted> slotted) {
  std::ranges::sort(slotted, {}, &Slotted::slot);
  std::vector<Action> out;
  out.reserve(slotted.size());
  for (const Slotted& entry : slotted) out.push_back(entry.action);
  return out;
}

int forward_slot(int stage, int microbatch) {
  return stage + 2 * microbatch;
}

int backward_slot(int stage, int microbatch, int depth) {
  return 2 * depth - 1 - stage + 2 * microbatch;
}

}  // namespace troupe::schedules
