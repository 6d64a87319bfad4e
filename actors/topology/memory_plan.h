#pragma once

#include <cstdint>
#include <vector>

#include "actors/topology/assembly.h"
#include "stages/transformer_stage.h"

namespace troupe::actors {

/// What a worker process takes beside its stage and its edges: program, libraries and what they
/// keep of their own. Measured: the resident size (VmRSS) of ranks that train with
/// cluster.threads = 1, less the planned bytes of stage and pools and the mapped slots of other
/// ranks, is 28 MiB for a stage of 2 MiB, 36 MiB for stages of 50 to 150 MiB, and 42 MiB with a
/// neighbour's state. 23 MiB of it are pages of files, which the processes of a machine share.
inline constexpr std::int64_t kProcessBytes = std::int64_t{32} << 20;

/// Bytes that one rank takes.
struct RankMemory {
  stages::StageMemory stage;
  /// Bytes of transport buffers. Slots that sender and receiver both map count at the receiver
  /// alone.
  std::int64_t pools = 0;
  std::int64_t total() const { return stage.total() + pools + kProcessBytes; }
};

/// Memory of each rank, before anything is allocated. The assembly is the shape's.
std::vector<RankMemory> memory_of(const RunSpec& spec, const ClusterShape& shape,
                                  const Assembly& assembly);
/// Bytes of a spare that is warm: it has memory for any of these ranks.
std::int64_t memory_of_spare(const std::vector<RankMemory>& ranks);
/// Bytes of all ranks and spares together.
std::int64_t total_memory(const RunSpec& spec, const ClusterShape& shape);
/// Bytes while one shape takes over from another: the same processes hold stages and pools of both.
/// A spare gives up its memory for one before it prepares for the other.
std::int64_t total_memory_of_change(const RunSpec& spec, const ClusterShape& now,
                                    const ClusterShape& next);

}  // namespace troupe::actors
