#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>

namespace troupe::actors {

/// A way between two hosts on which a connection was tried in vain.
struct BrokenWay {
  std::string from;
  std::string to;
  std::string how;  ///< "10.0.0.2:29600: no answer within 2.5 s"
};

/// Which host the run goes on without.
struct PartitionVerdict {
  std::string host;
  std::string cause;  ///< names a host that it does not reach, as HostLost::cause
};

/// Decides which of the hosts that do not reach each other is given up: the one with the most
/// others out of reach, of those the one with fewer ranks, then rather not the launcher's, then the
/// one that comes last in `ranks`' order of names. None if no way is broken, or if a host of each
/// broken way has no ranks any more.
std::optional<PartitionVerdict> judge_partition(std::span<const BrokenWay> broken,
                                                const std::map<std::string, int>& ranks,
                                                const std::string& launchers);

}  // namespace troupe::actors
