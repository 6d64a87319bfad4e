#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "actors/topology/assembly.h"
#include "actors/topology/reports/allocated_memory.h"
#include "transport/wire/edge_placement.h"

namespace troupe::actors {

/// What a worker process takes beside its stage and its edges: program, libraries and what they
/// keep of their own. Measured: the resident size (VmRSS) of ranks that train with
/// one thread, less the planned bytes of stage and pools and the mapped slots of other
/// ranks, is 28 MiB for a stage of 2 MiB, 36 MiB for stages of 50 to 150 MiB, and 42 MiB with a
/// neighbour's state. 23 MiB of it are pages of files, which the processes of a machine share.
inline constexpr std::int64_t kProcessBytes = std::int64_t{32} << 20;

/// Bytes that one rank takes.
struct RankMemory {
  AllocatedMemory allocated;
  /// What a GPU takes beside the stage's tensors: scratch of the libraries' products and attention,
  /// and the process's context. 0 on a CPU. These two and `process` are estimates.
  std::int64_t workspace = 0;
  std::int64_t context = 0;
  std::int64_t process = kProcessBytes;
  bool on_gpu = false;
  /// The part of `allocated.pools` that a GPU holds; 0 on a CPU.
  std::int64_t edges = 0;
  /// By each rank that one on a GPU exchanges messages with, where slots will lie if both are on
  /// one host.
  std::map<int, transport::EdgePlacement> placements = {};
  int communicators = 0;  ///< num_communicators(); 0 on a CPU
  /// Bytes of the memory of a GPU; 0 on a CPU.
  std::int64_t device_total() const {
    return on_gpu ? allocated.stage.total() + allocated.buckets + workspace + context + edges : 0;
  }
  std::int64_t total() const { return allocated.total() + workspace + context + process; }
  /// Bytes of the memory that it computes in: a GPU's, or on a CPU the machine's.
  std::int64_t own_total() const { return on_gpu ? device_total() : total(); }
  /// Bytes of the machine's memory.
  std::int64_t host_total() const { return total() - device_total(); }
};

/// Memory of each rank, before anything is allocated. The assembly is the shape's. The ring decides
/// only which rank has the memory of which copy.
std::vector<RankMemory> memory_of(const RunSpec& spec, const ClusterShape& shape,
                                  const Assembly& assembly, const CopyRing& ring = {});
/// Memory of the rank with the largest own_total(), without counting all: shards of a stage are
/// alike, and of stages only those are counted that no other one is known to exceed.
RankMemory memory_of_fullest(const RunSpec& spec, const ClusterShape& shape,
                             const Assembly& assembly);
/// Memory of a spare that is warm, which suffices for any of these ranks.
RankMemory memory_of_spare(const std::vector<RankMemory>& ranks);
/// Bytes of the machine's memory that all ranks and spares take together.
std::int64_t total_memory(const RunSpec& spec, const ClusterShape& shape);
/// Bytes of the machine's memory while one shape takes over from another: the same processes hold
/// stages and pools of both. A GPU without room for two stages has its state wait in host memory. A
/// spare gives up its memory for one before it prepares for the other.
std::int64_t total_memory_of_change(const RunSpec& spec, const ClusterShape& now,
                                    const ClusterShape& next);

}  // namespace troupe::actors
