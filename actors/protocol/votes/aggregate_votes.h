#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "actors/messages/messages.h"
#include "actors/protocol/protocol.h"
#include "stages/model/model_config.h"

namespace troupe::actors {

/// Sums a replica's votes. Squared norms are added in float64 in the model's canonical parameter
/// order, and within a parameter in the order of the shards that own parts of it, so that the norm
/// has the same bits however the layers lie on stages. `votes`, and the Ready answers that came
/// before them, are ordered by rank.
ReplicaPrepared aggregate_votes(int replica, const std::vector<Prepared>& votes,
                                const std::vector<Ready>& ready, const RunSpec::Mesh& mesh,
                                const std::vector<stages::ParameterInfo>& parameters);

}  // namespace troupe::actors
