#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "actors/messages/tap_request.h"

namespace troupe::launch {

/// The ranks of "0:1". Throws Error{usage} for another text.
actors::TapRequest parse_edge(const std::string& text);

/// For the control protocol.
nlohmann::json to_json(const actors::TapRequest& request);
/// Throws Error{usage} for what is no request.
actors::TapRequest parse_tap(const nlohmann::json& fields);

/// Why nothing that a run in this state sends will ever fit the request, with the valid choices;
/// empty where something may. `status` has `pipeline`, `step` and `max_steps`; a run that has no
/// pipeline yet may have anything.
std::string never_fits(const actors::TapRequest& request, const nlohmann::json& status);
/// "activations of edge 0:1, microbatch 2, of every 10th step", for people.
std::string describe(const actors::TapRequest& request);

}  // namespace troupe::launch
