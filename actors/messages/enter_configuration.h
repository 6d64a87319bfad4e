#pragma once

#include <cstdint>
#include <string>

#include "actors/topology/configuration.h"
#include "actors/topology/state/state_plan.h"

namespace troupe::actors {

/// How a configuration begins: the state that it starts from, and what its ranks must agree on.
struct ConfigurationStart {
  StatePlan state;            ///< in an order to one member: the moves that begin or end at it
  std::string checkpoint;     ///< directory to load from, if not from memory; empty: fresh weights
  bool weights_only = false;  ///< the checkpoint gives no moments: they begin at zero
  std::int64_t sample_origin = 0;  ///< stages::FeedSpec::origin
  bool saves_only = false;         ///< no step follows: what the ranks hold is saved
  std::uint64_t digest = 0;        ///< digest of the assembly that every rank must derive
  HostShare host;                  ///< of the member that the order is for, if it is a rank
  CopyRing ring;                   ///< in an order to one member: what it has to know of it
};

/// A configuration and how it begins: whole, or the part of it that concerns one member. It is not
/// sent over the wire.
struct EnterConfiguration {
  Configuration configuration;
  ConfigurationStart start;
};

}  // namespace troupe::actors
