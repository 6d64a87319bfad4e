#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "actors/hosts/hosts.h"
#include "launch/hosts/hosts_plan.h"

namespace troupe::launch {

/// What a launcher leaves in the run directory for another one that takes over the run: where the
/// agents of its hosts are, and the secret that they trust. Only its owner may read the file.
struct HostsRecord {
  HostsPlan::Start start = HostsPlan::Start::none;
  int count = 0;                    ///< HostsPlan::count
  std::vector<actors::Host> named;  ///< HostsPlan::named
  std::string secret;               ///< of the run's authority
  std::vector<actors::AgentRecord> agents;
};
std::string to_text(const HostsRecord& record);
/// None if there is no such file: the run is of one machine, or has ended. Throws Error{data} if
/// it cannot be understood, or others than its owner may read it.
std::optional<HostsRecord> read_hosts_record(const std::filesystem::path& file);

}  // namespace troupe::launch
