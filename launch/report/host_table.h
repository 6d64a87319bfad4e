#pragma once

#include <array>
#include <string>
#include <vector>

#include "actors/topology/reports/member_status.h"

namespace troupe::launch {

/// "rank 2", "ranks 0-3, 6".
std::string ranks_in_words(const std::vector<int>& ranks);

/// A host as people are told of it everywhere: a cell for each of kHostColumns.
struct HostLine {
  std::string host;
  std::string state;
  std::string ranks;      ///< "0-3", or "none"
  std::string within;     ///< what its ranks sent each other in a step, in shared memory
  std::string to_others;  ///< what they sent to ranks of other hosts, by TCP
  std::string losses;     ///< how often it was lost; empty: never
  std::string cause;      ///< why it is lost or to be left

  std::array<std::string, 7> cells() const {
    return {host, state, ranks, within, to_others, losses, cause};
  }
};
inline constexpr std::array<const char*, 7> kHostColumns{
    "host", "state", "ranks", "shm a step", "tcp a step", "lost", "why"};

/// A line for each host of a run on several; none for a run on one.
std::vector<HostLine> host_table(const std::vector<actors::HostStatus>& hosts);

}  // namespace troupe::launch
