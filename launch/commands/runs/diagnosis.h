#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace troupe::launch {

/// What is wrong with a run, a line for each finding, worst first; empty for a healthy run. It
/// examines a live run's status as `troupe status --json` prints it, for lost hosts, ranks that are
/// lost, workers on this host whose process does not exist or is stopped, a recovery in progress,
/// hosts whose ranks are slow, files that cannot be written, and monitors that miss events. What is
/// wrong with a host is one finding, however many ranks it has.
std::vector<std::string> diagnose(const nlohmann::json& status);

}  // namespace troupe::launch
