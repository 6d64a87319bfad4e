#include "launch/run/run_list.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "launch/manifest/toml/manifest.h"
#include "launch/run/outcome.h"
#include "launch/run/run_directory.h"
#include "stages/files/checkpoint/checkpoint.h"
#include "tensor/errors/error.h"

namespace troupe::launch {
namespace {

namespace fs = std::filesystem;

constexpr int kLevels = 4;
/// The end of metrics.jsonl that is read: more than the line of any step.
constexpr std::streamoff kTail = std::streamoff{4} << 20;

/// The last whole line of a step; none if the file has none.
std::optional<nlohmann::json> last_step(const fs::path& metrics) {
  std::ifstream file(metrics, std::ios::binary | std::ios::ate);
  if (!file) return std::nullopt;
  const std::streamoff size = file.tellg(), begin = std::max<std::streamoff>(size - kTail, 0);
  std::string text(static_cast<std::size_t>(size - begin), '\0');
  file.seekg(begin);
  file.read(text.data(), std::ssize(text));
  for (std::size_t end = text.rfind('\n'); end != std::string::npos && end > 0;) {
    const std::size_t before = text.rfind('\n', end - 1);
    const std::size_t at = before == std::string::npos ? 0 : before + 1;
    auto line = nlohmann::json::parse(text.substr(at, end - at), nullptr, false);
    if (line.is_object() && line.contains("loss") && line.contains("step")) return line;
    end = before;
  }
  return std::nullopt;
}

std::time_t time_of(const fs::path& file) {
  struct stat status {};
  return stat(file.c_str(), &status) == 0 ? status.st_mtime : 0;
}

void add_ending(const fs::path& run, ListedRun& listed) {
  const auto ending = read_ending(run);
  if (has_launcher(run)) {
    listed.state = "running";
  } else if (!ending) {
    listed.state = "killed";
    listed.reason = "its launcher left no reason";
  } else {
    listed.state = ending->outcome.exit_code == 0 ? "ended" : "failed";
    listed.reason = ending->outcome.reason;
    listed.step = std::max(listed.step, ending->outcome.step);
  }
}

ListedRun listed_run(const fs::path& run) try {
  ListedRun listed{.directory = run,
                   .name = run.filename().string(),
                   .changed = std::max(time_of(run / kMetricsFile), time_of(run / kManifestFile))};
  for (const char* file : {kManifestFile, kLockFile, kMetricsFile})
    if (eaccess((run / file).c_str(), R_OK) != 0 && errno != ENOENT) {
      listed.state = "unreadable";
      listed.reason = std::strerror(errno);
      return listed;
    }
  const Manifest manifest = Manifest::read(run / kManifestFile, {});
  listed.name = manifest->name;
  listed.max_steps = manifest->max_steps;
  if (const auto step = last_step(run / kMetricsFile)) {
    if (step->at("step").is_number_integer()) listed.step = step->at("step");
    if (step->at("loss").is_number()) listed.loss = step->at("loss").get<double>();
  }
  const auto saved = stages::own_checkpoints(run / kCheckpoints);
  if (!saved.empty()) listed.checkpoint = run / kCheckpoints / fmt::format("step-{}", saved.back());
  add_ending(run, listed);
  return listed;
} catch (const Error& error) {
  return {.directory = run,
          .name = run.filename().string(),
          .state = "unreadable",
          .reason = error.what(),
          .changed = time_of(run / kManifestFile)};
}

void find_runs(const fs::path& directory, int levels, std::vector<ListedRun>& runs) {
  if (holds_run(directory)) return runs.push_back(listed_run(directory.lexically_normal()));
  if (levels == 0) return;
  std::error_code code;
  for (fs::directory_iterator entry(directory, code), end; !code && entry != end;
       entry.increment(code)) {
    std::error_code ignored;
    const bool hidden = entry->path().filename().string().starts_with('.');
    if (!hidden && !entry->is_symlink(ignored) && entry->is_directory(ignored))
      find_runs(entry->path(), levels - 1, runs);
  }
  if (code == std::errc::permission_denied)  // it may hold runs, or be one
    runs.push_back({.directory = directory.lexically_normal(),
                    .name = directory.filename().string(),
                    .state = "unreadable",
                    .reason = code.message(),
                    .changed = time_of(directory)});
}

}  // namespace

std::vector<ListedRun> list_runs(const fs::path& directory) {
  std::error_code code;
  [[maybe_unused]] const fs::directory_iterator readable(directory, code);
  if (code)
    throw Error(ErrorKind::data,
                fmt::format("{}: cannot look for runs: {}", directory.string(), code.message()));
  std::vector<ListedRun> runs;
  find_runs(directory, kLevels, runs);
  std::ranges::stable_sort(runs, std::greater(), &ListedRun::changed);
  return runs;
}

}  // namespace troupe::launch
