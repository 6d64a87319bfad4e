#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "actors/topology/memory/memory_plan.h"
#include "actors/topology/run_spec.h"
#include "actors/topology/state/unit_order.h"
#include "launch/host/machine.h"
#include "launch/manifest/checks/parameter_groups.h"
#include "schedules/analysis/simulate.h"
#include "schedules/plan/plan.h"
#include "stages/storage/progress.h"
#include "tensor/parallel/communication_volume.h"

namespace troupe::launch {

/// What one rank holds of a run.
struct RankPlacement {
  int rank = 0;
  int replica = 0;
  int stage = 0;
  int shard = 0;
  std::vector<int> layers;  ///< numbers of its decoder layers, ascending
  /// What it sends the other shards of its stage in a step for these layers, as
  /// tensor::communication_volume() counts.
  tensor::Bytes to_shards;
  std::int64_t parameters = 0;  ///< of two copies of a parameter only the owner's counts
  std::int64_t trained = 0;     ///< of them, not frozen
  std::int64_t base = 0;        ///< of them, of the base of an adapter
  actors::RankMemory memory;
  /// What the state would take without padding and in even slices: 4 bytes a parameter for each of
  /// weight and gradient and 8 for the moments of one that trains, divided by the replicas that
  /// divide them, and what is kept of them for recovery; the base of an adapter has weights alone.
  struct Formula {
    std::int64_t weights = 0, gradients = 0, optimizer = 0;
  };
  Formula formula;
  std::int64_t twin_bytes = 0;  ///< of the slices that it keeps for another replica
};

/// What each rank of a run holds and what its schedule costs, computed before anything starts.
struct Placement {
  std::int64_t parameters = 0;
  std::int64_t trained = 0;             ///< of them, not frozen
  std::vector<GroupCount> groups = {};  ///< of optimizer.group
  std::vector<RankPlacement> ranks;
  /// The host of each rank, a number in RunSpec::Cluster::hosts; empty if it names none.
  std::vector<int> host_of_rank = {};
  int spares = 0;
  std::int64_t spare_bytes = 0;         ///< bytes that each spare takes
  std::int64_t spare_device_bytes = 0;  ///< of them, of a GPU's memory
  schedules::Plan plan;
  /// Bytes of activations, over all ranks, that recompute saves; below 0 if it costs more.
  std::int64_t saved_bytes = 0;
  /// By the word of data_parallel.sharding, of those that this mesh can have: the bytes that the
  /// fullest rank would allocate.
  std::map<std::string, std::int64_t> sharding = {};
  int division = 1;  ///< replicas among which the state of a stage is divided
  /// By stage, of its first rank; empty for one replica.
  std::vector<actors::ReplicaTraffic> traffic = {};
  schedules::Simulation simulation;  ///< simulated with actors::layer_costs()
  /// What the same costs give a step that begins ahead of the validation of the one before, of what
  /// they give one behind a barrier; none of a schedule whose stages end together.
  std::optional<double> ahead_share = {};
  /// Simulated with schedule.costs, in a unit of its own; none without it.
  std::optional<schedules::Simulation> expected = {};
  std::uint64_t digest = 0;          ///< digest on which all ranks must agree before the first step
  std::int64_t total_bytes() const;  ///< sum over ranks and spares
  std::int64_t device_bytes() const;  ///< of it, of a GPU's memory
  std::int64_t host_bytes() const { return total_bytes() - device_bytes(); }
};

/// Computes the placement of a spec that has been checked. Throws Error{unavailable} if the hosts
/// have no room for its ranks. For many layers on thousands of ranks
/// that takes a while; `progress` is told of the times that memory of all ranks was counted.
Placement place(const actors::RunSpec& spec, const stages::Progress& progress = {});

/// A list of layers as ranges: "0-2, 6".
std::string ranges_text(const std::vector<int>& layers);

}  // namespace troupe::launch
