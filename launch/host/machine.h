#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace troupe::launch {

/// What this machine lets the run use.
struct Machine {
  int free_cores = 1;  ///< cores (not hardware threads) that this process may run on
  std::int64_t memory_bytes =
      0;  ///< physical memory, or the control group's limit where that is less
};
Machine this_machine();

/// $HOME, else what the user database says; none where neither knows it.
std::optional<std::filesystem::path> home_directory();

/// Free bytes of the file system on which `path` lies or will lie.
std::int64_t free_disk_bytes(std::filesystem::path path);

}  // namespace troupe::launch
