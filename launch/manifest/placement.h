#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "actors/topology/run_spec.h"
#include "launch/host/machine.h"
#include "schedules/plan.h"
#include "schedules/simulate.h"
#include "stages/transformer_stage.h"

namespace troupe::launch {

/// One rank's share of a run.
struct RankPlacement {
  int rank = 0;
  int replica = 0;
  int stage = 0;
  std::vector<int> layers;      ///< decoder layers, ascending
  std::int64_t parameters = 0;  ///< a copy is counted with its owner
  stages::StageMemory memory;
  std::int64_t pools = 0;        ///< bytes of transport buffers, see actors::RankMemory
  std::int64_t total_bytes = 0;  ///< with what the process takes without a stage
};

/// Where everything of a run lies and what its schedule costs, before anything starts.
struct Placement {
  std::int64_t parameters = 0;
  std::vector<RankPlacement> ranks;
  int spares = 0;
  std::int64_t spare_bytes = 0;  ///< of each one
  schedules::Plan plan;
  schedules::Simulation simulation;  ///< with equal costs of F, I and W and no link time
  std::uint64_t digest = 0;          ///< what all ranks must agree on before the first step
  std::int64_t total_bytes() const;  ///< of ranks and spares
};

/// The spec is checked.
Placement place(const actors::RunSpec& spec);

/// "0-2, 6": a list of layers as ranges.
std::string ranges_text(const std::vector<int>& layers);

}  // namespace troupe::launch
