#pragma once

#include <nlohmann/json.hpp>

#include "actors/monitors/event.h"

namespace troupe::launch {

/// An event as monitors outside the process and events.jsonl get it: {time, kind, epoch, step, and
/// what the kind has}. `rank` stands where a rank is concerned; `time` is in Unix seconds,
/// durations end in _s. launch/README.md lists the fields of each kind.
nlohmann::json to_json(const actors::RunEvent& event);

/// The kinds named in "step,failure"; all for an empty text. Throws Error{usage} naming a kind that
/// there is not.
actors::EventMask parse_kinds(const std::string& names);

}  // namespace troupe::launch
