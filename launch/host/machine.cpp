#include "launch/host/machine.h"

#include <hwloc.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <memory>

namespace troupe::launch {
namespace {

/// Counts the cores that have a hardware thread that this process is bound to.
int count_cores() {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) return 1;
  const std::unique_ptr<hwloc_topology, decltype(&hwloc_topology_destroy)> topology(
      raw, hwloc_topology_destroy);
  if (hwloc_topology_load(raw) != 0) return 1;
  const std::unique_ptr<hwloc_bitmap_s, decltype(&hwloc_bitmap_free)> bound(hwloc_bitmap_alloc(),
                                                                            hwloc_bitmap_free);
  if (hwloc_get_cpubind(raw, bound.get(), HWLOC_CPUBIND_PROCESS) != 0) return 1;
  int count = 0;
  for (hwloc_obj_t core = nullptr; (core = hwloc_get_next_obj_by_type(raw, HWLOC_OBJ_CORE, core));)
    if (hwloc_bitmap_intersects(core->cpuset, bound.get())) ++count;
  return std::max(count, 1);
}

/// The memory limit of the process's control group (version 2); INT64_MAX if there is none.
std::int64_t memory_limit() {
  std::ifstream file("/sys/fs/cgroup/memory.max");
  std::int64_t limit = 0;
  return file >> limit && limit > 0 ? limit : INT64_MAX;
}

}  // namespace

Machine this_machine() {
  const std::int64_t physical = std::int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  return {.free_cores = count_cores(), .memory_bytes = std::min(physical, memory_limit())};
}

std::optional<std::filesystem::path> home_directory() {
  if (const char* home = std::getenv("HOME"); home && *home) return home;
  const passwd* user = getpwuid(getuid());
  if (!user || !user->pw_dir) return std::nullopt;
  return user->pw_dir;
}

std::int64_t free_disk_bytes(std::filesystem::path path) {
  path = std::filesystem::absolute(path);
  std::error_code ignored;
  while (path.has_relative_path() && !std::filesystem::exists(path, ignored))
    path = path.parent_path();
  const auto space = std::filesystem::space(path, ignored);
  return ignored ? INT64_MAX : static_cast<std::int64_t>(space.available);
}

}  // namespace troupe::launch
