#pragma once

#include <nlohmann/json.hpp>

#include "tensor/device_library.h"

namespace troupe::launch {

/// A report as JSON, {driver, libraries: [{name, version, path}], devices: [{name, uuid, major,
/// minor, multiprocessors, memory_bytes, free_bytes, peers}], fault, emulates}.
nlohmann::json to_json(const tensor::DeviceReport& report);
/// The report that to_json() gave. Throws nlohmann::json::exception for anything else.
tensor::DeviceReport report_of(const nlohmann::json& json);

}  // namespace troupe::launch
