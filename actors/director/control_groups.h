#pragma once

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

}  // namespace troupe::actors
