#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "tensor/device_library.h"

namespace troupe::launch {

/// The resources that this machine lets a run use.
struct Machine {
  std::string host = {};  ///< its name
  std::string cpu = {};   ///< the model of its processor; empty if it is not known
  int free_cores = 1;     ///< cores (not hardware threads) that this process may run on
  /// Physical memory, or the control group's limit if that is less.
  std::int64_t memory_bytes = 0;
  /// What it has for CUDA; none if nobody asked, as nobody does for a run on the CPU.
  std::optional<tensor::DeviceReport> gpus = {};
};
Machine this_machine();
/// {host, cpu, cores, memory_bytes, and gpus, a device report, if somebody asked for it}.
nlohmann::json to_json(const Machine& machine);

/// $HOME, or else the home directory in the user database; none if neither has one.
std::optional<std::filesystem::path> home_directory();

/// Free bytes of the file system on which `path` lies or would be created.
std::int64_t free_disk_bytes(std::filesystem::path path);

}  // namespace troupe::launch
