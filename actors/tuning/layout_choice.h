#pragma once

#include <functional>
#include <vector>

#include "actors/tuning/layer_times.h"
#include "actors/tuning/schedule_choice.h"

namespace troupe::actors {

/// The simulated times of the current split of the layers and of the best one found.
struct LayoutChoice {
  Candidate now, best;
  LayerTimes times;
};

/// Searches the split of the layers over the chunks of the current schedule that fits memory and
/// that the simulator finds fastest with the measured times. The search starts from the current
/// split and from a split with equal work, and moves one layer at a time as long as that makes the
/// step shorter; then it starts from each split beside the best one. The time of a step outside its
/// actions counts as constant.
LayoutChoice choose_layout(const RunSpec& spec, const ClusterShape& current,
                           const Measured& measured,
                           const std::function<bool(const ClusterShape&)>& fits);

}  // namespace troupe::actors
