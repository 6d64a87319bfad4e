#include <fmt/format.h>

#include <charconv>
#include <filesystem>
#include <fstream>

#include "launch/commands/commands.h"
#include "launch/commands/runs/collective_verdict.h"
#include "launch/host/console.h"
#include "launch/run/run_directory.h"
#include "tensor/error.h"

namespace troupe::launch {
namespace {

namespace fs = std::filesystem;

/// The rank of a folder "rank-R"; none for other names.
std::optional<int> rank_of(const std::string& folder) {
  constexpr std::string_view kPrefix = "rank-";
  if (!folder.starts_with(kPrefix)) return std::nullopt;
  int rank = 0;
  const char* end = folder.data() + folder.size();
  const auto [rest, error] = std::from_chars(folder.data() + kPrefix.size(), end, rank);
  return error == std::errc{} && rest == end ? std::optional(rank) : std::nullopt;
}

/// The lines of a file. A last line that is torn, because its rank died while it wrote, is left
/// out.
std::vector<nlohmann::json> read_lines(const fs::path& path) {
  std::vector<nlohmann::json> lines;
  std::ifstream file(path);
  for (std::string text; std::getline(file, text);) {
    auto line = nlohmann::json::parse(text, nullptr, false);
    if (line.is_object()) lines.push_back(std::move(line));
  }
  return lines;
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
    if (fs::exists(file)) records[*rank] = read_lines(file);
  }
  return records;
}

}  // namespace

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
  } catch (const nlohmann::json::exception& error) {
    throw Error(ErrorKind::data,
                fmt::format("{}/{} holds records that this version cannot read: {}", options.run,
                            kLogs, error.what()));
  }
}

}  // namespace troupe::launch
