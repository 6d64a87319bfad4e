#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "launch/manifest/inputs/placement.h"

namespace troupe::launch {

/// What one host of a run holds.
struct HostShare {
  actors::Host host;
  std::vector<int> ranks;                     ///< ascending; none on a spare host
  std::int64_t memory_bytes = 0;              ///< of its machine, that these take
  double sent_bytes = 0, received_bytes = 0;  ///< in a step, over the network
};

/// A rank, and the one that would give its state if the rank's host were lost.
struct HeldCopy {
  int rank = 0;
  int copy_on = 0;
};

/// Two stages of a replica between which tensors travel.
struct StageLink {
  int replica = 0;
  int from = 0;
  int to = 0;
  bool over_network = false;
};

/// What a host sends another in a step.
struct HostLink {
  int from = 0;  ///< number in HostPlacement::hosts
  int to = 0;
  double bytes = 0;
};

/// How a run lies on its hosts, which need not be up.
struct HostPlacement {
  std::vector<HostShare> hosts;
  std::vector<HeldCopy> copies;
  bool survives = false;  ///< memory has all state whichever host is lost
  std::vector<StageLink> stage_links;
  /// Messages between stages and copies of state are counted as they travel; of a collective each
  /// member is taken to exchange an equal part with each other one.
  std::vector<HostLink> links;
};

/// The placement on hosts of a run that names some; without hosts all lists are empty.
HostPlacement place_on_hosts(const actors::RunSpec& spec, const Placement& placement);

}  // namespace troupe::launch
