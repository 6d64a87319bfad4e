#pragma once

#include <vector>

#include "actors/topology/configuration.h"
#include "actors/tuning/step_meter.h"
#include "schedules/analysis/costs.h"

namespace troupe::actors {

/// The parts of the model on which the measured actions spend their time.
struct LayerTimes {
  std::vector<ActionTimes> layer;  ///< time of one decoder layer on each stage
  ActionTimes embedding;           ///< time of the embedding, on whatever stage
  ActionTimes head;                ///< time of final norm and head, on whatever stage
};

/// Splits the measured times. The time of a layer on a stage follows from its chunks without
/// embedding and head. If a stage has no such chunk, its layers count as much as those of other
/// stages, or less if the whole chunk took less, and the rest counts for embedding or head. If no
/// stage has such a chunk, the embedding counts as 0.
LayerTimes layer_times(const Layout& layout, const Measured& measured);

/// What a chunk's actions cost that take so long.
schedules::StageCosts costs_of(const ActionTimes& times);

/// A step's plan and the times of its actions, to simulate the step under any split of the layers.
class StepSimulation {
 public:
  /// Uses the mesh and the schedule of `shape`, not its layout.
  StepSimulation(const RunSpec& spec, const ClusterShape& shape, LayerTimes times, double hop_s);
  /// The time of each chunk's actions under a layout.
  schedules::Costs costs(const Layout& layout) const;
  /// The simulated seconds from one step to the next.
  double simulated(const Layout& layout) const;
  const schedules::Plan& plan() const { return plan_; }
  const LayerTimes& times() const { return times_; }

 private:
  schedules::Plan plan_;
  LayerTimes times_;
  double hop_s_ = 0;
  schedules::Barrier barrier_ = schedules::Barrier::global;
};

}  // namespace troupe::actors
