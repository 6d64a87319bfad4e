#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "actors/agent/control_groups.h"
#include "tensor/libraries/device_library.h"

namespace troupe::launch {

/// The resources that this machine lets a run use.
struct Machine {
  std::string host = {};  ///< its name
  std::string cpu = {};   ///< the model of its processor; empty if it is not known
  /// Cores (not hardware threads) that this process may run on, or if a quota of its control group
  /// gives it less time than these have, that time in cores, rounded up.
  int free_cores = 1;
  /// Hardware threads of these cores, or the quota if that is less: how many threads a work takes
  /// whose result does not depend on their number.
  int free_threads = 1;
  /// Physical memory, or the control group's limit if that is less.
  std::int64_t memory_bytes = 0;
  /// What it has for CUDA; none if nobody asked, as nobody does for a run on the CPU.
  std::optional<tensor::DeviceReport> gpus = {};
  std::optional<double> cpu_quota = {};  ///< processor time in cores, if free_cores follows from it
  bool memory_is_limited = false;        ///< whether memory_bytes is the control group's limit

  /// How many cores ranks may take for themselves, to be bound to them or to poll. None under a
  /// quota: other groups run on the same cores, and polling uses up the quota that computing needs.
  int own_cores() const { return cpu_quota ? 0 : free_cores; }
};
Machine this_machine();
/// The machine as the limits of some control groups leave it.
Machine limited(Machine machine, const actors::ControlGroups& groups);
/// {host, cpu, cores, memory_bytes, and gpus, a device report, if somebody asked for it}.
nlohmann::json to_json(const Machine& machine);

/// What this machine has for CUDA. Asks a process of its own, `troupe devices`, because a process
/// that has called CUDA cannot start others that do, and because a broken driver may crash or hang.
/// Then `fault` tells of it. It starts the running program again, so only the program `troupe` may
/// call it: a test would run itself without end. Throws nothing.
tensor::DeviceReport own_gpus();

/// This machine's name; empty if it has none.
std::string host_name();

/// $HOME, or else the home directory in the user database; none if neither has one.
std::optional<std::filesystem::path> home_directory();

/// Free bytes of the file system on which `path` lies or would be created.
std::int64_t free_disk_bytes(std::filesystem::path path);

}  // namespace troupe::launch
