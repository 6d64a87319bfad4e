#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <variant>

#include "launch/control/control_client.h"
#include "launch/run/outcome.h"

namespace troupe::launch {

/// Asks the launcher that owns a run directory, with `fields` beside the request's name: an open
/// request, or how the run ended where there
/// is no launcher any more. Throws Error{data} if the directory holds no run, Error{unavailable} if
/// its launcher does not answer.
std::variant<std::unique_ptr<ControlClient>, Ending> ask_run(
    const std::filesystem::path& run, const std::string& request,
    const nlohmann::json& fields = nlohmann::json::object());

/// How a run ended whose launcher closed the connection instead of a reply. Throws
/// Error{unavailable} where it goes on: its launcher took us for a stranger.
Ending ended_unanswered(const std::filesystem::path& run);

}  // namespace troupe::launch
