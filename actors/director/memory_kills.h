#pragma once

#include <algorithm>
#include <cstdint>

namespace troupe::actors {

/// Which deaths of workers the kernel's count of kills for lack of memory explains
/// (ControlGroups::memory_kills). The kernel counts a kill before it sends the signal, so a worker
/// that dies by SIGKILL takes one of the new counts. It counts kills of other processes, too: one
/// that no worker has died of from one look to the next was theirs.
class MemoryKills {
 public:
  explicit MemoryKills(std::int64_t count) : taken_(count), seen_(count) {}

  /// To be told the count now and then, further apart than a killed process takes to end.
  void look(std::int64_t count) {
    taken_ = std::max(taken_, seen_);
    seen_ = count;
  }
  /// Whether the kernel has killed a worker that died by SIGKILL just now.
  bool take(std::int64_t count) {
    if (count <= taken_) return false;
    ++taken_;
    return true;
  }

 private:
  std::int64_t taken_;  ///< kills that are accounted for
  std::int64_t seen_;   ///< as the last look saw it
};

}  // namespace troupe::actors
