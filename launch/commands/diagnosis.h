#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace troupe::launch {

/// What is wrong with a run, a line for each finding, worst first; empty for a healthy run. Reads a
/// live run's status as `troupe status --json` prints it: ranks that are lost, workers that are not
/// there or stopped (as far as they run on this host), a recovery in progress, files that cannot be
/// written, monitors that miss events.
std::vector<std::string> diagnose(const nlohmann::json& status);

}  // namespace troupe::launch
