#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "actors/monitors/tap_request.h"

namespace troupe::launch {

/// The ranks of "0:1". Throws Error{usage} for another text.
actors::TapRequest parse_edge(const std::string& text);

/// For the control protocol.
nlohmann::json to_json(const actors::TapRequest& request);
/// Throws Error{usage} for what is no request.
actors::TapRequest parse_tap(const nlohmann::json& fields);

/// Whether a `tensor` event, as event_json.h makes it, is one that the request asked for.
bool fits(const actors::TapRequest& request, const nlohmann::json& event);

}  // namespace troupe::launch
