#pragma once

#include <nlohmann/json.hpp>

#include "actors/monitors/event.h"

namespace troupe::launch {

/// An event as monitors outside the process and events.jsonl get it: {time, kind, configuration,
/// step, and the fields of its kind}. It has `rank` if it concerns a rank. `time` is in Unix
/// seconds; names of durations end in _s. launch/monitors/README.md lists the fields of each kind.
nlohmann::json to_json(const actors::RunEvent& event);

/// An action as the `actions` of an event have it.
nlohmann::json to_json(const actors::ActionsTraced::Action& action);

/// The kinds named in a text such as "step,failure"; all for an empty text. Throws Error{usage}
/// naming a kind that does not exist.
actors::EventMask parse_kinds(const std::string& names);

}  // namespace troupe::launch
