#pragma once

#include <vector>

#include "actors/topology/epoch.h"
#include "actors/tuning/step_meter.h"
#include "schedules/costs.h"

namespace troupe::actors {

/// Where the time of the measured actions goes.
struct LayerTimes {
  std::vector<ActionTimes> layer;  ///< by stage: of one decoder layer there
  ActionTimes embedding;           ///< wherever it lies
  ActionTimes head;                ///< of final norm and head, wherever they lie
};

/// Chunks without embedding and head tell what a layer takes on their stage. Where a stage has none
/// of them, its layers count as theirs, or less if the whole chunk took less, and the rest is
/// embedding or head; where there are none at all, the embedding counts as nothing.
LayerTimes layer_times(const Layout& layout, const Measured& measured);

/// A step's plan and what its actions take; layers may be split in any way.
class PaperStep {
 public:
  /// The mesh and schedule of `shape` count.
  PaperStep(const RunSpec& spec, const ClusterShape& shape, LayerTimes times, double hop_s);
  /// What each chunk's actions take.
  schedules::Costs costs(const Layout& layout) const;
  /// Seconds from the first action to the last one's end.
  double simulated(const Layout& layout) const;
  const schedules::Plan& plan() const { return plan_; }
  const LayerTimes& times() const { return times_; }

 private:
  schedules::Plan plan_;
  LayerTimes times_;
  double hop_s_ = 0;
};

}  // namespace troupe::actors
