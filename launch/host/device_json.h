#pragma once

#include <nlohmann/json.hpp>

#include "tensor/libraries/device_library.h"

// A report of GPUs as JSON, {driver, libraries: [{name, version, path}], devices: [{name, uuid,
// ...}], fault, emulates, collectives_fault}: what nlohmann::json looks for beside the type.

namespace troupe::tensor {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(LibraryVersion, name, version, path)
// A run of an earlier version has told less of its GPUs.
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(DeviceInfo, name, uuid, major, minor,
                                                multiprocessors, memory_bytes, free_bytes,
                                                context_bytes, peers, shares_memory)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(DeviceReport, driver, libraries, devices, fault, emulates,
                                   collectives_fault)

}  // namespace troupe::tensor
