#pragma once

#include <functional>
#include <vector>

#include "actors/tuning/layer_times.h"
#include "actors/tuning/schedule_choice.h"

namespace troupe::actors {

/// What the current split of the layers takes on paper, and the best one found.
struct LayoutChoice {
  Candidate now, best;
  LayerTimes times;
};

/// The split of the layers over the chunks of the current schedule that the simulator finds fastest
/// with the measured times, among those that fit: from the current split and from equal work, one
/// layer moves at a time as long as that helps. What a step takes beyond its actions stays.
LayoutChoice choose_layout(const RunSpec& spec, const ClusterShape& current,
                           const Measured& measured,
                           const std::function<bool(const ClusterShape&)>& fits);

}  // namespace troupe::actors
