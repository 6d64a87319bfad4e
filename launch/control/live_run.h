#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <variant>

#include "launch/control/control_client.h"
#include "launch/run/outcome.h"

namespace troupe::launch {

/// Sends a request, with `fields` beside its name, to the launcher that owns a run directory.
/// Returns the open request, or how the run ended if it has no launcher any more. Throws
/// Error{data} if the directory holds no run, Error{unavailable} if its launcher does not answer.
std::variant<std::unique_ptr<ControlClient>, Ending> ask_run(
    const std::filesystem::path& run, const std::string& request,
    const nlohmann::json& fields = nlohmann::json::object());

/// How a run ended whose launcher closed the connection without a reply. Throws Error{unavailable}
/// if the run is still going on: then its launcher did not accept the token.
Ending ended_unanswered(const std::filesystem::path& run);

}  // namespace troupe::launch
