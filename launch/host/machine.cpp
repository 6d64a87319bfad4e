#include "launch/host/machine.h"

#include <hwloc.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cmath>
#include <cstdlib>
#include <memory>

#include "launch/host/device_json.h"

namespace troupe::launch {

std::string host_name() {
  std::array<char, HOST_NAME_MAX + 1> name{};
  return gethostname(name.data(), name.size()) == 0 ? name.data() : "";
}

namespace {

using Topology = std::unique_ptr<hwloc_topology, decltype(&hwloc_topology_destroy)>;

/// What hwloc finds; null if it finds nothing.
Topology load_topology() {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) return {nullptr, hwloc_topology_destroy};
  Topology topology(raw, hwloc_topology_destroy);
  if (hwloc_topology_load(raw) != 0) topology.reset();
  return topology;
}

/// Counts the cores, or the hardware threads, that this process may run on, if only in part.
int count_allowed(hwloc_topology_t topology, hwloc_obj_type_t type) {
  const std::unique_ptr<hwloc_bitmap_s, decltype(&hwloc_bitmap_free)> bound(hwloc_bitmap_alloc(),
                                                                            hwloc_bitmap_free);
  if (hwloc_get_cpubind(topology, bound.get(), HWLOC_CPUBIND_PROCESS) != 0) return 1;
  int count = 0;
  for (hwloc_obj_t unit = nullptr; (unit = hwloc_get_next_obj_by_type(topology, type, unit));)
    if (hwloc_bitmap_intersects(unit->cpuset, bound.get())) ++count;
  return std::max(count, 1);
}

std::string cpu_name(hwloc_topology_t topology) {
  const hwloc_obj_t package = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_PACKAGE, nullptr);
  const char* name = package ? hwloc_obj_get_info_by_name(package, "CPUModel") : nullptr;
  return name ? name : "";
}

}  // namespace

Machine limited(Machine machine, const actors::ControlGroups& groups) {
  if (const std::int64_t limit = groups.memory_limit(); limit < machine.memory_bytes) {
    machine.memory_bytes = limit;
    machine.memory_is_limited = true;
  }
  const double quota = groups.cpu_quota();
  const auto within = [quota](int units) {
    return quota < units ? std::max(1, static_cast<int>(std::ceil(quota))) : units;
  };
  if (quota < machine.free_cores) machine.cpu_quota = quota;
  machine.free_cores = within(machine.free_cores);
  machine.free_threads = within(machine.free_threads);
  return machine;
}

Machine this_machine() {
  const std::int64_t physical = std::int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  const Topology topology = load_topology();
  return limited({.host = host_name(),
                  .cpu = topology ? cpu_name(topology.get()) : "",
                  .free_cores = topology ? count_allowed(topology.get(), HWLOC_OBJ_CORE) : 1,
                  .free_threads = topology ? count_allowed(topology.get(), HWLOC_OBJ_PU) : 1,
                  .memory_bytes = physical},
                 actors::ControlGroups());
}

nlohmann::json to_json(const Machine& machine) {
  nlohmann::json out{{"host", machine.host},
                     {"cpu", machine.cpu},
                     {"cores", machine.free_cores},
                     {"memory_bytes", machine.memory_bytes}};
  if (machine.gpus) out["gpus"] = *machine.gpus;
  return out;
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
