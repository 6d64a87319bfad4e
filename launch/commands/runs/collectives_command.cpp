#include "launch/commands/runs/collectives_command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <utility>

#include "launch/commands/options.h"
#include "launch/host/console.h"
#include "launch/run/run_directory.h"
#include "tensor/errors/error.h"

namespace troupe::launch {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// The rank of a folder "rank-R"; none for other names.
std::optional<int> rank_of(const std::string& folder) {
  constexpr std::string_view kPrefix = "rank-";
  if (!folder.starts_with(kPrefix)) return std::nullopt;
  int rank = 0;
  const char* end = folder.data() + folder.size();
  const auto [rest, error] = std::from_chars(folder.data() + kPrefix.size(), end, rank);
  return error == std::errc{} && rest == end ? std::optional(rank) : std::nullopt;
}

CollectiveRecords read_records(const fs::path& run) {
  CollectiveRecords records;
  require_readable(run / kLogs);
  for (const auto& folder : fs::directory_iterator(run / kLogs)) {
    const auto rank = rank_of(folder.path().filename());
    const fs::path file = folder.path() / kCollectivesFile;
    if (!rank) continue;
    require_readable(folder.path());
    require_readable(file);
    if (fs::exists(file)) records[*rank] = read_json_lines(file);
  }
  return records;
}

/// "all-reduce of 1000 float32".
std::string call_text(const json& record) {
  return fmt::format("{} of {} {}", record.at("operation").get<std::string>(),
                     record.at("elements").get<std::uint64_t>(),
                     record.at("dtype").get<std::string>());
}

bool is_of_device(const json& record) {
  return record.value("by_device", false);
}

/// Whether members may call the one and the other as the same collective. The inputs of a gather
/// may differ, and what they say is only what one member gave.
bool fits(const json& a, const json& b) {
  return a.at("operation") == b.at("operation") && a.at("dtype") == b.at("dtype") &&
         a.value("alike", 0ull) == b.value("alike", 0ull);
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
      if (is_of_device(line)) continue;  // nobody tells its end
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
  const bool differs =
      std::ranges::any_of(callers, [&own](const json& caller) { return !fits(caller, *own); });
  return differs ? fmt::format("  rank {} called {} there", rank, call_text(*own)) : "";
}

/// The first collective of each group of devices that ranks called differently.
std::vector<std::string> differing_calls(const CollectiveRecords& records,
                                         std::int64_t configuration) {
  using Place = std::pair<std::string, std::uint64_t>;
  std::map<Place, json> first;           // what the lowest rank called
  std::map<std::string, Place> differs;  // by group
  std::map<Place, std::string> texts;
  for (const auto& [rank, lines] : records) {
    for (const json& line : lines) {
      if (line.at("configuration") != configuration || !is_of_device(line)) continue;
      const Place place{line.at("group"), line.at("sequence")};
      const auto [known, is_first] = first.try_emplace(place, line);
      if (is_first || fits(known->second, line)) continue;
      const auto found = differs.try_emplace(place.first, place).first;
      found->second = std::min(found->second, place);
      texts.try_emplace(place,
                        fmt::format("number {} is {} at rank {} and {} at rank {}", place.second,
                                    call_text(known->second), known->second.at("rank").get<int>(),
                                    call_text(line), rank));
    }
  }
  std::vector<std::string> all;
  for (const auto& [group, place] : differs)
    all.push_back(
        fmt::format("configuration {}, group \"{}\": {}", configuration, group, texts.at(place)));
  return all;
}

}  // namespace

std::vector<std::string> collective_verdict(const CollectiveRecords& records) {
  std::vector<std::string> lines;
  const std::int64_t configuration = newest_configuration(records);
  for (const auto& [group, callers] : first_unfinished(records, configuration)) {
    const json& first = callers.front();
    std::vector<int> ranks;
    std::set<int> missing;
    for (const json& caller : callers) {
      ranks.push_back(caller.at("rank"));
      for (const json& rank : caller.at("missing")) missing.insert(rank.get<int>());
    }
    lines.push_back(fmt::format(
        "configuration {}, group \"{}\": {}, number {}, did not end; called by {} {}",
        configuration, group, call_text(first), first.at("sequence").get<std::uint64_t>(),
        callers.size() == 1 ? "rank" : "ranks", fmt::join(ranks, ", ")));
    for (const int rank : missing)
      if (const std::string fault = fault_of(rank, callers, records); !fault.empty())
        lines.push_back(fault);
  }
  for (const std::string& line : differing_calls(records, configuration)) lines.push_back(line);
  return lines;
}

int run(const CollectivesOptions& options) {
  const fs::path run = options.run;
  require_run(run);
  try {
    const auto records = read_records(run);
    if (records.empty()) {
      print("no rank has recorded collectives: none was interrupted\n");
      return 0;
    }
    const auto verdict = collective_verdict(records);
    if (verdict.empty()) print("every recorded collective ended\n");
    for (const std::string& line : verdict) print(line + "\n");
    return 0;
  } catch (const json::exception& error) {
    throw Error(ErrorKind::data,
                fmt::format("{}/{} holds records that this version cannot read: {}", options.run,
                            kLogs, error.what()));
  }
}

}  // namespace troupe::launch
