#include "launch/run/outcome.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <ctime>

#include "launch/host/local_time.h"
#include "launch/manifest/toml/manifest.h"
#include "launch/run/metrics_file.h"
#include "launch/run/run_directory.h"
#include "stages/files/checkpoint/checkpoint.h"
#include "tensor/errors/error.h"

namespace troupe::launch {
namespace {

constexpr const char* kUtc = "%Y-%m-%dT%H:%M:%SZ";

std::string utc(std::time_t time) {
  return fmt::format(fmt::runtime(fmt::format("{{:{}}}", kUtc)), fmt::gmtime(time));
}

}  // namespace

Ending ending_now(const actors::Outcome& outcome, const std::string& checkpoint) {
  return {.outcome = outcome, .time = utc(std::time(nullptr)), .checkpoint = checkpoint};
}

nlohmann::json to_json(const Ending& e) {
  return {{"exit_code", e.outcome.exit_code},
          {"step", e.outcome.step},
          {"reason", e.outcome.reason},
          {"ended", e.time},
          {"checkpoint", e.checkpoint}};
}

std::optional<Ending> parse_ending(const nlohmann::json& json) try {
  return Ending{.outcome = {.exit_code = json.at("exit_code"),
                            .step = json.at("step"),
                            .reason = json.at("reason")},
                .time = json.at("ended"),
                .checkpoint = json.at("checkpoint")};
} catch (const nlohmann::json::exception&) {
  return std::nullopt;
}

std::optional<Ending> read_ending(const std::filesystem::path& run) {
  const auto json = read_json(run / kOutcomeFile);
  return json ? parse_ending(*json) : std::nullopt;
}

Ending find_ending(const std::filesystem::path& run) {
  if (auto ending = read_ending(run)) return *ending;
  Ending ending{.outcome = {.exit_code = static_cast<int>(ErrorKind::internal),
                            .step = metrics_end(run / kMetricsFile).step,
                            .reason = "its launcher was killed or crashed, and left no reason; go "
                                      "on with: troupe launch --resume " +
                                      run.string()}};
  // The last modification of these files approximates the time of the end.
  const auto& newest = std::filesystem::exists(run / kMetricsFile) ? kMetricsFile : kManifestFile;
  struct stat status {};
  if (stat((run / newest).c_str(), &status) == 0) ending.time = utc(status.st_mtime);
  const auto saved = stages::own_checkpoints(run / kCheckpoints);
  if (!saved.empty()) ending.checkpoint = run / kCheckpoints / fmt::format("step-{}", saved.back());
  return ending;
}

std::optional<Ending> ending_unless_live(const std::filesystem::path& run) {
  try {
    if (has_launcher(run)) return std::nullopt;
  } catch (const Error&) {
    // A launcher that goes on with a run removes the outcome of its end.
    if (auto ending = read_ending(run)) return ending;
    throw;
  }
  return find_ending(run);
}

std::string saved_as(const Ending& e) {
  return e.checkpoint.empty() ? "" : "; newest checkpoint " + e.checkpoint;
}

double time_of(const Ending& e) {
  std::tm time{};
  const char* end = strptime(e.time.c_str(), kUtc, &time);
  return end && *end == 0 ? static_cast<double>(timegm(&time)) : 0;
}

std::string local_time_of(const Ending& e) {
  const double time = time_of(e);
  return time > 0 ? time_text(time) : e.time;
}

std::string describe(const Ending& e, const std::string& run) {
  return fmt::format("run {} ended at {}, step {}, exit code {}: {}{}", run, local_time_of(e),
                     e.outcome.step, e.outcome.exit_code, e.outcome.reason, saved_as(e));
}

}  // namespace troupe::launch
