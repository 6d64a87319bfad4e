#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace troupe::launch {

/// Lines of logs/rank-R/collectives.jsonl, by rank R.
using CollectiveRecords = std::map<int, std::vector<nlohmann::json>>;

/// Which collective did not end in the newest configuration that is recorded, and which rank is at
/// fault: a line for each group's first such collective and one for each rank that it missed, those
/// that never started it, called another one there, or left no record. Empty if all of them ended.
std::vector<std::string> collective_verdict(const CollectiveRecords& records);

}  // namespace troupe::launch
