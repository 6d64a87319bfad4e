#pragma once

#include <cstdint>
#include <ctime>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace troupe::launch {

/// A run in a list, as its files show it.
struct ListedRun {
  std::filesystem::path directory;
  std::string name;
  /// "running"; "ended", in order; "failed"; "killed", without a word; or "unreadable", by this
  /// user.
  std::string state;
  std::string reason;     ///< why it ended, or why it cannot be read; empty: neither
  std::int64_t step = 0;  ///< the newest committed step
  std::int64_t max_steps = 0;
  std::optional<double> loss;  ///< of that step
  std::string checkpoint;      ///< path of its newest one; empty: none
  std::time_t changed = 0;     ///< when the run last wrote a step, or else its manifest
};

/// The runs in a directory and in those below it, up to four levels, the one that changed last
/// first. Neither links nor hidden directories are followed. Reads files only, and so disturbs no
/// run. Throws Error{data} if there is no such directory, or it may not be read.
std::vector<ListedRun> list_runs(const std::filesystem::path& directory);

}  // namespace troupe::launch
