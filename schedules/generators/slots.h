#pragma once

#include <vector>

#include "schedules/plan/action.h"

namespace troupe::schedules {

/// An action and the slot it has in a drawing, for orders that are defined by pictures.
struct Slotted {
  int slot;
  Action action;
};

/// The actions in the order of their slots. No two actions share a slot.
std::vector<Action> by_slot(std::vector<Slotted> slotted);

/// One wave of a conflict-free pipeline, forward and backward taking a slot each: a microbatch goes
/// down `depth` stages and back, and the next one follows two slots later. Slots count from the
/// wave's first forward, `stage` from the end at which the wave begins.
int forward_slot(int stage, int microbatch);
int backward_slot(int stage, int microbatch, int depth);

}  // namespace troupe::schedules
