#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "actors/topology/reports/allocated_memory.h"
#include "actors/topology/reports/clock_ahead.h"
#include "actors/topology/reports/worker_gpu.h"

// What is told of the ranks and hosts of a run at one moment.

namespace troupe::actors {

struct RankStatus {
  int rank = 0;
  int replica = 0;
  int stage = 0;
  int shard = 0;
  int pid = 0;
  std::string host;
  std::optional<WorkerGpu> gpu{};  ///< none: it computes on a CPU
  std::string state;               ///< starting, ready, running, waiting, preparing, stopped, lost
  std::string waiting_for;         ///< the named wait; empty: none
  std::string collectives;  ///< GroupsChanged::collectives; empty: those of hosts, or not known yet
  /// "local", "staged" or "peer", by each rank that one on a GPU exchanges messages with.
  std::map<std::string, std::string> edges;
  std::vector<int> waits_long_for;   ///< the ranks for which it has waited for seconds
  std::uint64_t resident_bytes = 0;  ///< memory of the rank's process; 0: not reported yet
  AllocatedMemory allocated;         ///< what the rank has allocated; zeros: not reported yet
  std::uint64_t saved_bytes = 0;     ///< size of the rank's part of the newest checkpoint
};

/// Whether they are on more than one.
inline bool are_on_several_hosts(const std::vector<RankStatus>& ranks) {
  return std::ranges::any_of(
      ranks, [&](const RankStatus& rank) { return rank.host != ranks.front().host; });
}

/// What a configuration's ranks send to each other: a microbatch goes through the chunks of one
/// copy of the parameters, forward and back.
struct Pipeline {
  int pp = 1;
  int dp = 1;  ///< of the stage that has most, as tp is
  int tp = 1;
  int ep = 0;  ///< Mesh::ep; 0: each replica has all experts
  std::vector<int> dp_of_stage, tp_of_stage;  ///< if stages differ in width; else empty
  std::vector<int> stage_of_chunk;            ///< in model order, one copy after the other
  int copies = 1;
  int microbatches = 0;  ///< per replica; each copy has an equal share, in ascending order
};

/// A host of a run over several.
struct HostStatus {
  std::string host;
  std::string state;  ///< HostChanged::state
  std::string cause;  ///< of a loss or a drain
  std::string address;
  std::uint64_t incarnation = 0;  ///< of its agent; 0: it is the launcher's
  int slots = 0;
  std::optional<ClockAhead> clock;  ///< of the launcher's; none: it is that, or not known
  int losses = 0;                   ///< how often it was lost
  std::vector<int> ranks;
  /// What these sent in the newest step to ranks of the host, and to those of others.
  std::uint64_t host_bytes = 0, network_bytes = 0;
  bool operator==(const HostStatus&) const = default;
};

}  // namespace troupe::actors
