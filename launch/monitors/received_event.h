#pragma once

#include <nlohmann/json.hpp>
#include <optional>

#include "actors/monitors/event.h"

namespace troupe::launch {

// What a run sends to readers outside its process, as the values that it was made of. A field that
// is missing or of another type counts as empty, so that a monitor shows what it can of a run of
// another version.

/// The event of which to_json() of control/event_json.h made `json`; none for a kind that is not
/// known, or `tensor`, which no picture needs.
std::optional<actors::RunEvent> received_event(const nlohmann::json& json);

/// The actions of an event of that kind.
actors::ActionsTraced received_actions(const nlohmann::json& event);

/// The status of which to_json() of control/control_protocol.h made `json`, without what is under
/// way but steps that are computed again.
actors::RunStatus received_status(const nlohmann::json& json);

}  // namespace troupe::launch
