#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "actors/messages/messages.h"
#include "actors/protocol/protocol.h"
#include "stages/model_config.h"

namespace troupe::actors {

/// Sums a replica's votes. Squared norms are added in float64 in the model's canonical parameter
/// order, whichever stages hold the parameters, so that the norm has the same bits for every
/// layout. `votes`, and the Ready answers that came before them, are ordered by stage.
ReplicaPrepared aggregate_votes(int replica, const std::vector<Prepared>& votes,
                                const std::vector<Ready>& ready,
                                const std::vector<stages::ParameterInfo>& parameters);

}  // namespace troupe::actors
