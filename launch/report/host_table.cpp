#include "launch/report/host_table.h"

#include <cstdint>

#include "launch/host/quantities.h"
#include "launch/manifest/inputs/placement.h"
#include "schedules/plan/counted.h"

namespace troupe::launch {
namespace {

std::string sent_text(std::uint64_t bytes) {
  return bytes == 0 ? "" : bytes_text(static_cast<std::int64_t>(bytes));
}

}  // namespace

std::string ranks_in_words(const std::vector<int>& ranks) {
  return (ranks.size() == 1 ? "rank " : "ranks ") + ranges_text(ranks);
}

std::vector<HostLine> host_table(const std::vector<actors::HostStatus>& hosts) {
  std::vector<HostLine> lines;
  if (hosts.size() < 2) return lines;
  for (const actors::HostStatus& host : hosts)
    lines.push_back({.host = host.host,
                     .state = host.state,
                     .ranks = host.ranks.empty() ? "none" : ranges_text(host.ranks),
                     .within = sent_text(host.host_bytes),
                     .to_others = sent_text(host.network_bytes),
                     .losses = host.losses == 0 ? "" : schedules::counted(host.losses, "time"),
                     .cause = host.cause});
  return lines;
}

}  // namespace troupe::launch
