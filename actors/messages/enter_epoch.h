#pragma once

#include <cstdint>
#include <string>

#include "actors/topology/epoch.h"
#include "actors/topology/state_plan.h"

namespace troupe::actors {

/// How an epoch begins: the state that it starts from, and what its ranks must agree on.
struct EpochStart {
  StatePlan state;            ///< for one member: the moves that begin or end at it
  std::string checkpoint;     ///< directory to load from, if not from memory; empty: fresh weights
  bool weights_only = false;  ///< the checkpoint gives no moments: they begin at zero
  std::int64_t sample_origin = 0;  ///< stages::FeedSpec::origin
  std::uint64_t digest = 0;        ///< of the assembly that every rank must derive
  CoreUse cores;                   ///< of this machine, by each rank
};

/// An epoch and how it begins: for all members, or as far as one of them has a part in it. Not on
/// the wire.
struct EnterEpoch {
  Epoch epoch;
  EpochStart start;
};

}  // namespace troupe::actors
