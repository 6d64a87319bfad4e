#include "launch/commands/runs/collective_verdict.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <set>

namespace troupe::launch {
namespace {

using nlohmann::json;

/// "all-reduce of 1000 float32".
std::string call_text(const json& record) {
  return fmt::format("{} of {} {}", record.at("operation").get<std::string>(),
                     record.at("elements").get<std::uint64_t>(),
                     record.at("dtype").get<std::string>());
}

bool is_same_place(const json& a, const json& b) {
  return a.at("configuration") == b.at("configuration") && a.at("group") == b.at("group") &&
         a.at("sequence") == b.at("sequence");
}

std::int64_t newest_configuration(const CollectiveRecords& records) {
  std::int64_t newest = -1;
  for (const auto& [rank, lines] : records)
    for (const json& line : lines)
      newest = std::max(newest, line.at("configuration").get<std::int64_t>());
  return newest;
}

/// The first unfinished collective of each group, as the ranks that called it recorded it.
std::map<std::string, std::vector<json>> first_unfinished(const CollectiveRecords& records,
                                                          std::int64_t configuration) {
  std::map<std::string, std::vector<json>> groups;
  for (const auto& [rank, lines] : records) {
    for (const json& line : lines) {
      if (line.at("configuration") != configuration || !line.at("finished").is_null()) continue;
      auto& first = groups[line.at("group")];
      if (!first.empty() && line.at("sequence") < first.front().at("sequence")) first.clear();
      if (first.empty() || line.at("sequence") == first.front().at("sequence"))
        first.push_back(line);
    }
  }
  return groups;
}

/// What a missing rank did in place of the collective that `callers` called; empty if it called it
/// too and is not at fault.
std::string fault_of(int rank, const std::vector<json>& callers, const CollectiveRecords& records) {
  const auto found = records.find(rank);
  if (found == records.end())
    return fmt::format("  rank {} left no record: it never started it, or ended within it", rank);
  const auto own = std::ranges::find_if(
      found->second, [&callers](const json& line) { return is_same_place(line, callers.front()); });
  if (own == found->second.end()) return fmt::format("  rank {} never started it", rank);
  const bool differs = std::ranges::any_of(
      callers, [&own](const json& caller) { return call_text(caller) != call_text(*own); });
  return differs ? fmt::format("  rank {} called {} there", rank, call_text(*own)) : "";
}

}  // namespace

std::vector<std::string> collective_verdict(const CollectiveRecords& records) {
  std::vector<std::string> lines;
  const std::int64_t configuration = newest_configuration(records);
  for (const auto& [group, callers] : first_unfinished(records, configuration)) {
    const json& first = callers.front();
    std::string ranks;
    std::set<int> missing;
    for (const json& caller : callers) {
      ranks += fmt::format("{}{}", ranks.empty() ? "" : ", ", caller.at("rank").get<int>());
      for (const json& rank : caller.at("missing")) missing.insert(rank.get<int>());
    }
    lines.push_back(fmt::format(
        "configuration {}, group \"{}\": {}, number {}, did not end; called by {} {}",
        configuration, group, call_text(first), first.at("sequence").get<std::uint64_t>(),
        callers.size() == 1 ? "rank" : "ranks", ranks));
    for (const int rank : missing)
      if (const std::string fault = fault_of(rank, callers, records); !fault.empty())
        lines.push_back(fault);
  }
  return lines;
}

}  // namespace troupe::launch
