#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "launch/report/run_report.h"

namespace troupe::launch {

/// What a run's page shows, as data; launch/report/README.md lists the fields.
nlohmann::json to_json(const RunReport& run);
/// {runs: [as above], differences: [{key, values}]}.
nlohmann::json to_json(const std::vector<RunReport>& runs);

}  // namespace troupe::launch
