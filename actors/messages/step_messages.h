#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "actors/monitors/event.h"
#include "actors/topology/reports/reports.h"

// What a stage tells of a step: its vote, and what monitors asked to see.

namespace troupe::actors {

/// The vote: this rank's gradients of the step are complete.
struct Prepared {
  struct Sent {
    std::uint32_t to = 0;     ///< rank
    std::uint64_t bytes = 0;  ///< bytes sent in this step
  };
  struct Waited {
    std::uint32_t from = 0;  ///< rank
    double wait_s = 0;       ///< time spent waiting for messages of `from`
  };
  std::uint32_t configuration = 0;
  std::int64_t step = 0;
  int rank = 0;
  double loss_sum = 0;
  std::int64_t targets = 0;  ///< of the step in all replicas; 0: each token of joined samples
  /// The parts of loss_sum by source, with the targets in the rank's replica; none from ranks that
  /// do not tell them apart.
  std::vector<StepReport::SourceSum> sources;
  /// The replica's parts, of the stage's layers; none from shards but the first.
  std::vector<StepReport::Router> routers;
  int bad_microbatch = -1;
  std::string bad_gradient;           ///< stages::DataParallel::not_finite()
  std::vector<double> squared_norms;  ///< of the parameters in Ready::parameters, in that order
  double busy_s = 0;
  double collective_s = 0;
  double wall_s = 0;
  std::uint64_t device_used = 0, device_total = 0;  ///< bytes of a GPU's memory; 0 on a CPU
  GroupsState groups = GroupsState::none;
  /// Bytes sent since the vote before to ranks of the same host, and of others; 0 if all ranks are
  /// on one.
  std::uint64_t host_bytes = 0, network_bytes = 0;
  std::vector<Sent> sent;      ///< one for each rank that it sends to
  std::vector<Waited> waited;  ///< one for each rank that sends to it
  std::vector<StepReport::Collectives> collectives;
  std::vector<LargeGradient> large;
};

/// What monitors asked to see of a rank's step: an event, and where in the run it belongs.
template <typename Body>
struct Observation {
  std::uint32_t configuration = 0;
  std::int64_t step = 0;
  int rank = 0;
  Body body;
};
/// The actions of one rank in one step, in order; a long step takes several messages.
using TracedActions = Observation<ActionsTraced>;
/// The summary of a tensor that a TapRequest asked for.
using Tapped = Observation<TensorTapped>;
/// Histograms of parts of weights and gradients; those of a large stage take several messages.
using ParameterHistograms = Observation<ParametersSeen>;

}  // namespace troupe::actors
