#include <algorithm>

#include "launch/hosts/gathering.h"

// How the hosts of a run come from one launcher to another.

namespace troupe::launch {

void HostGathering::take_over() {
  door_->take_over(plan_.takeover->agents, plan_.takeover->term, plan_.takeover->keeps_workers);
  door_->registry().forget_refusals();  // those who are named are started anew
}

bool HostGathering::inherits() const {
  const auto entries = door_->registry().entries();
  return std::ranges::any_of(entries, [](const auto& entry) { return !entry.inherited.empty(); });
}

HostsRecord HostGathering::record() const {
  HostsRecord record{.start = plan_.start,
                     .count = plan_.count,
                     .named = plan_.named,
                     .secret = authority_.secret(),
                     .agents = {}};
  for (const auto& entry : door_->registry().entries())
    if (!entry.lost && entry.door > 0)
      record.agents.push_back(
          {.host = entry.host.name, .address = entry.address, .port = entry.door});
  return record;
}

}  // namespace troupe::launch
