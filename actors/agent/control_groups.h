#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <vector>

namespace troupe::actors {

/// The control groups (cgroups(7)) that a process is in, of version 1 and 2: what containers, batch
/// systems and systemd use to limit its memory and its processor time. A limit of a group holds for
/// all groups within it, so the tightest one on the way up counts. Groups that cannot be read limit
/// nothing.
class ControlGroups {
 public:
  static constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();

  /// The groups of this process. `root` holds `proc` and `sys`; tests have their own.
  explicit ControlGroups(const std::filesystem::path& root = "/");

  /// Bytes that all processes of the group may use together, or kNoLimit.
  std::int64_t memory_limit() const;
  /// Processor time that all processes of the group may use together, in seconds per second;
  /// infinite if there is no quota.
  double cpu_quota() const;
  /// How many processes the kernel has killed for lack of memory since the machine started: those
  /// of the group, or where groups do not count them, those of the machine. 0 if nothing tells.
  std::int64_t memory_kills() const;

 private:
  /// A group's folder and those around it, the innermost first.
  using Folders = std::vector<std::filesystem::path>;
  Folders memory_1_, cpu_1_;  ///< of the controllers of version 1
  Folders unified_;           ///< of version 2
  std::filesystem::path machine_kills_;
};

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
