#pragma once

#include <cstdint>

#include "actors/topology/assembly.h"
#include "transport/collectives/collective_memory.h"

namespace troupe::actors {

/// The room that each group of a rank has for its collectives. RankConfiguration has groups of the
/// same names.
struct GroupRooms {
  transport::CollectiveMemory tied, mirror, replicas, instances, twins, forward_weights,
      backward_weights, shard_forwards, shard_backwards, shard_gradients, kv_head;
};
GroupRooms group_memory(const RunSpec& spec, const RankAssembly& part);
/// The bytes of all of them, if the ranks are on one host.
std::int64_t collectives_bytes(const RunSpec& spec, const RankAssembly& part);

}  // namespace troupe::actors
