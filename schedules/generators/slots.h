#pragma once

#include <vector>

#include "schedules/action.h"

namespace troupe::schedules {

/// An action and the slot it has in a drawing, for orders that are defined by pictures.
struct Slotted {
  int slot;
  Action action;
};

/// The actions by slot. No two share one.
std::vector<Action> by_slot(std::vector<Slotted> slotted);

/// One wave of a conflict-free pipeline, forward and backward taking a slot each: a microbatch goes
/// down `depth` stages and back, the next one follows two slots behind. Slots count from the wave's
/// first forward; `stage` from the end where it begins.
int forward_slot(int stage, int microbatch);
int backward_slot(int stage, int microbatch, int depth);

}  // namespace troupe::schedules
