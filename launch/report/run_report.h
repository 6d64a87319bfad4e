#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "launch/manifest/toml/manifest.h"
#include "launch/report/history.h"
#include "launch/report/metrics.h"
#include "launch/report/run_prediction.h"
#include "launch/report/step_picture.h"
#include "launch/report/time_account.h"
#include "launch/run/outcome.h"

namespace troupe::launch {

/// A complete checkpoint in the run directory.
struct CheckpointRow {
  std::string name;  ///< "step-100"
  std::int64_t step = 0;
  std::int64_t bytes = 0;                     ///< of all its files
  std::optional<SavedCheckpoint> saved = {};  ///< how it was written, if that is known
};

/// What a report tells of a run.
struct RunReport {
  std::string directory;  ///< as the user named it
  Manifest manifest;
  std::int64_t parameters = 0;
  nlohmann::json machine;  ///< of the newest launch, as machine.json has it; empty: not known
  bool live = false;
  std::optional<Ending> ending;  ///< of a run that is not live
  Metrics metrics;
  History history;
  TimeAccount time;
  std::optional<StepPicture> step;
  std::vector<CheckpointRow> checkpoints;  ///< ascending
  std::optional<RunPrediction> prediction = {};

  std::string name() const { return manifest->name; }
  std::int64_t last_step() const { return metrics.steps.back().step; }
  /// The shell command that trains the same run again, in a directory of its own.
  std::string repeated_by() const;
};

/// The hosts of a run on several, with the ranks of each, and what these sent in a step on average
/// over the newest shape.
std::vector<actors::HostStatus> hosts_of(const RunReport& run);

/// What a run's page shows, as data; launch/report/README.md lists the fields.
nlohmann::json to_json(const RunReport& run);
/// {runs: [as above], differences: [{key, values}]}.
nlohmann::json to_json(const std::vector<RunReport>& runs);

/// Reads a run directory, which no other program needs to be done with. `now` is in Unix seconds.
/// `machine` is a description of the machine that the run is on (describe_machine()), for which its
/// steps are predicted; empty: the preset of its GPUs, if there is one.
/// Throws Error{data} if it holds no run, or none with a committed step.
RunReport read_report(const std::filesystem::path& run, double now,
                      const std::string& machine = "");

/// A key of the manifest that has another value than by default.
struct ChangedKey {
  std::string key;
  std::string value;     ///< as TOML
  std::string fallback;  ///< the default as TOML; empty: it follows from other keys
  std::string meaning;
};
/// The keys that the user set, but for those that were set to their default.
std::vector<ChangedKey> changed_keys(const Manifest& manifest);

/// A key in which the manifests of runs differ.
struct DifferentKey {
  std::string key;
  std::vector<std::string> values;  ///< of each run, as TOML; empty: it has none
};
/// The keys in which runs differ, but for their names and places.
std::vector<DifferentKey> different_keys(const std::vector<RunReport>& runs);

}  // namespace troupe::launch
