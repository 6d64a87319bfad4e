#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "actors/topology/reports/outcome.h"

namespace troupe::launch {

/// How a run ended, as outcome.json keeps it: {exit_code, step, reason, ended, checkpoint}.
struct Ending {
  actors::Outcome outcome;
  std::string time;        ///< end of the run in UTC, as "2026-01-31T12:00:00Z"
  std::string checkpoint;  ///< path of the newest checkpoint; empty: none
};

Ending ending_now(const actors::Outcome& outcome, const std::string& checkpoint);
nlohmann::json to_json(const Ending& ending);
/// The ending in an object that to_json() made; none for any other object.
std::optional<Ending> parse_ending(const nlohmann::json& json);
/// Reads a run directory's outcome.json; none if the run has not ended, or its launcher was killed
/// or crashed.
std::optional<Ending> read_ending(const std::filesystem::path& run);
/// How a run without a launcher ended: read_ending(), or, if its launcher was killed, what the
/// files in its directory show.
Ending find_ending(const std::filesystem::path& run);
/// How a run ended; none while a launcher owns it. Throws Error{data} if this user may not read
/// what would tell.
std::optional<Ending> ending_unless_live(const std::filesystem::path& run);

/// The checkpoint as the end of a message: "; newest checkpoint runs/a/checkpoints/step-12", or
/// empty.
std::string saved_as(const Ending& ending);
/// When the run ended, in Unix seconds; 0 if it is not known.
double time_of(const Ending& ending);
/// When the run ended, for people.
std::string local_time_of(const Ending& ending);
/// The ending as a message: "run runs/a ended at 2026-01-31 12:00:00 UTC, step 12, exit code 0:
/// finished; newest checkpoint runs/a/checkpoints/step-12".
std::string describe(const Ending& ending, const std::string& run);

}  // namespace troupe::launch
