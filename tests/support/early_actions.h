#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

namespace troupe::test {

/// Reads from a trace of `troupe trace`, by rank and step, how many actions the host began to queue
/// before the action before them had ended. If the host waited for its device after each action,
/// there would be none.
inline std::map<std::pair<int, std::int64_t>, int> early_actions(const nlohmann::json& trace) {
  constexpr double kRounding_us = 1e-3;
  struct Times {
    double begin_us = 0, end_us = 0, queued_us = 0;
  };
  std::map<std::pair<int, std::int64_t>, std::vector<Times>> rows;
  for (const nlohmann::json& event : trace.at("traceEvents")) {
    if (event.at("ph") != "X" || event.at("cat") != "action") continue;
    const nlohmann::json& arguments = event.at("args");
    const double begin_us = event.at("ts");
    rows[{event.at("pid"), arguments.at("step")}].push_back(
        {.begin_us = begin_us,
         .end_us = begin_us + event.at("dur").get<double>(),
         .queued_us = begin_us - arguments.at("queued_us_before").get<double>()});
  }
  std::map<std::pair<int, std::int64_t>, int> early;
  for (auto& [where, row] : rows) {
    std::ranges::stable_sort(row, {}, &Times::begin_us);
    int& number = early[where];
    for (std::size_t i = 1; i < row.size(); ++i)
      if (row[i].queued_us + kRounding_us < row[i - 1].end_us) ++number;
  }
  return early;
}

}  // namespace troupe::test
