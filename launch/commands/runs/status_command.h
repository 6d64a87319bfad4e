#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace troupe::launch {

/// What is wrong with a run, a line for each finding, worst first; empty for a healthy run. It
/// examines a live run's status as `troupe status --json` prints it, for ranks that are lost,
/// workers on this host whose process does not exist or is stopped, a recovery in progress, files
/// that cannot be written, and monitors that miss events.
std::vector<std::string> diagnose(const nlohmann::json& status);

}  // namespace troupe::launch
