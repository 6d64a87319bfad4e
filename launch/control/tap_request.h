#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "actors/monitors/tap_request.h"
#include "launch/run/json_fields.h"

namespace troupe::launch {

/// The request for the edge in a text such as "0:1", sender and receiver. Throws Error{usage} for
/// any other text.
actors::TapRequest parse_edge(const std::string& text, actors::TapRequest request);

/// The request as the "tap" object of the control protocol.
TROUPE_JSON_FIELDS(actors::TapRequest, x.from, x.to, x.backward, x.every, x.microbatch,
                   x.only_not_finite, x.dump, x.samples)
/// The request in a "tap" object of the control protocol. Throws Error{usage} if it is not valid.
actors::TapRequest parse_tap(const nlohmann::json& fields);

/// Why no tensor that a run in this state sends will ever match the request, with the valid
/// choices; empty if one may. `status` has `pipeline`, `step` and `max_steps`. A run that has no
/// pipeline yet may send any tensor.
std::string never_fits(const actors::TapRequest& request, const nlohmann::json& status);
/// The request as a phrase for people: "activations of edge 0:1, microbatch 2, of every 10th step".
std::string describe(const actors::TapRequest& request);

}  // namespace troupe::launch
