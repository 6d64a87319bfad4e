#include "launch/report/run_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "launch/manifest/inputs/placement.h"
#include "launch/manifest/resolve/run_spec.h"
#include "launch/run/run_directory.h"
#include "stages/files/checkpoint/checkpoint.h"
#include "tensor/errors/error.h"

namespace troupe::launch {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// Files that vanish meanwhile, as those of an old checkpoint may, count as 0.
std::int64_t bytes_below(const fs::path& directory) {
  std::int64_t bytes = 0;
  std::error_code ignored;
  for (auto entry = fs::recursive_directory_iterator(directory, ignored);
       entry != fs::recursive_directory_iterator(); entry.increment(ignored)) {
    const auto size = entry->is_regular_file(ignored) ? entry->file_size(ignored) : 0;
    if (size != static_cast<std::uintmax_t>(-1)) bytes += static_cast<std::int64_t>(size);
  }
  return bytes;
}

std::vector<CheckpointRow> checkpoints_of(const fs::path& run, const History& history) {
  std::vector<CheckpointRow> rows;
  for (const std::int64_t step : stages::complete_checkpoints(run / kCheckpoints)) {
    CheckpointRow row{.name = fmt::format("step-{}", step), .step = step};
    row.bytes = bytes_below(run / kCheckpoints / row.name);
    for (const SavedCheckpoint& saved : history.checkpoints)
      if (saved.step == step) row.saved = saved;
    rows.push_back(std::move(row));
  }
  return rows;
}

[[noreturn]] void refuse_empty(const fs::path& run, bool live) {
  const std::string none = run.string() + " has no committed step yet";
  if (live) throw Error(ErrorKind::data, none + "; report it when its first step is done");
  throw Error(ErrorKind::data, none + ": " + describe(find_ending(run), run.string()));
}

/// Whether the text means the same to a shell without quotes.
bool is_plain(const std::string& text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) ||
           std::string("/._-+=,:@%").find(c) != std::string::npos;
  });
}

std::string shell_word(const std::string& text) {
  if (is_plain(text)) return text;
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

/// The preset of a machine with GPUs, by their name; empty if there is none.
std::string preset_of(const json& machine) {
  if (!machine.contains("gpus") || !machine["gpus"].contains("devices")) return "";
  const json& devices = machine["gpus"]["devices"];
  if (devices.empty() || !devices[0].contains("name")) return "";
  const std::string name = devices[0]["name"];
  return std::string(machine_of_gpu(name));
}

}  // namespace

std::string RunReport::repeated_by() const {
  return fmt::format("troupe launch {} --set {}",
                     shell_word((fs::path(directory) / kManifestFile).string()),
                     shell_word("run.dir=" + directory + "-again"));
}

RunReport read_report(const fs::path& run, double now, const std::string& machine) {
  require_run(run);
  for (const char* file : {kManifestFile, kMetricsFile, kEventsFile}) require_readable(run / file);
  RunReport report{.directory = (run / "").parent_path().string(),
                   .manifest = Manifest::read(run / kManifestFile, {}),
                   .ending = ending_unless_live(run)};
  report.live = !report.ending;
  report.metrics = read_metrics(run / kMetricsFile);
  if (report.metrics.steps.empty()) refuse_empty(run, report.live);
  report.parameters = place(to_run_spec(report.manifest)).parameters;
  report.machine = read_json(run / kMachineFile).value_or(json::object());
  report.history = history_of(read_json_lines(run / kEventsFile));
  if (const auto step = read_json(run / kMeasuredStepFile)) report.step = step_picture(*step);
  report.time =
      where_time_went(time_sums(report.metrics, report.history), report.history,
                      report.live ? now : 0, report.step ? bubble_of(*report.step) : std::nullopt);
  report.checkpoints = checkpoints_of(run, report.history);
  const std::string described = machine.empty() ? preset_of(report.machine) : machine;
  if (!described.empty())
    report.prediction =
        predict_run(to_run_spec(report.manifest), report.metrics, describe_machine(described));
  return report;
}

std::vector<actors::HostStatus> hosts_of(const RunReport& run) {
  std::vector<actors::HostStatus> hosts = run.history.hosts;
  std::vector<RankTimes> means = run.metrics.ranks;
  const auto steps = static_cast<std::uint64_t>(std::max<std::int64_t>(1, run.metrics.num_summed));
  for (RankTimes& rank : means) {
    rank.host_bytes /= steps;
    rank.network_bytes /= steps;
  }
  actors::count_ranks(hosts, run.history.ranks, means);
  return hosts;
}

std::vector<ChangedKey> changed_keys(const Manifest& manifest) {
  std::vector<ChangedKey> changed;
  for (const Key& key : manifest_keys()) {
    const std::string name = key.full_name(), value = to_toml(manifest.value(key));
    if (name == "run.derived" || !manifest.given(key) || manifest.is_default(key)) continue;
    changed.push_back({.key = name,
                       .value = value,
                       .fallback = std::string(key.fallback),
                       .meaning = std::string(key.meaning)});
  }
  return changed;
}

std::vector<DifferentKey> different_keys(const std::vector<RunReport>& runs) {
  // They name a run or files that are made for it.
  constexpr std::array<std::string_view, 8> kOwn{"run.name",    "run.dir",     "run.derived",
                                                 "data.tokens", "eval.tokens", "data.digest",
                                                 "eval.digest", "eval.samples"};
  std::vector<DifferentKey> different;
  for (const Key& key : manifest_keys()) {
    DifferentKey row{.key = key.full_name(), .values = {}};
    if (std::ranges::find(kOwn, row.key) != kOwn.end()) continue;
    for (const RunReport& run : runs)
      row.values.push_back(run.manifest.has(key) ? to_toml(run.manifest.value(key)) : "");
    if (std::ranges::adjacent_find(row.values, std::not_equal_to()) != row.values.end())
      different.push_back(std::move(row));
  }
  return different;
}

}  // namespace troupe::launch
