#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "actors/topology/reports.h"

namespace troupe::launch {

/// How a run ended, as outcome.json keeps it: {exit_code, step, reason, ended, checkpoint}.
struct Ending {
  actors::Outcome outcome;
  std::string time;        ///< UTC, "2026-01-31T12:00:00Z"
  std::string checkpoint;  ///< the newest one; empty: none
};

Ending ending_now(const actors::Outcome& outcome, const std::string& checkpoint);
nlohmann::json to_json(const Ending& ending);
/// None for an object that to_json did not make.
std::optional<Ending> parse_ending(const nlohmann::json& json);
/// From a run directory's outcome.json; none if the run has not ended, or its launcher was killed
/// or crashed.
std::optional<Ending> read_ending(const std::filesystem::path& run);
/// What is known of the end of a run without a launcher: read_ending(), or what the files of a
/// launcher that was killed tell.
Ending find_ending(const std::filesystem::path& run);

/// "; newest checkpoint runs/a/checkpoints/step-12", or nothing.
std::string saved_as(const Ending& ending);
/// "run 'a' ended at 2026-01-31T12:00:00Z, step 12: finished; checkpoint
/// runs/a/checkpoints/step-12".
std::string describe(const Ending& ending, const std::string& run);

}  // namespace troupe::launch
