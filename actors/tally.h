#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "actors/messages.h"
#include "actors/protocol.h"
#include "stages/model_config.h"

namespace troupe::actors {

/// The answers of one kind of all stages of a replica, by stage. Local to the launcher.
template <typename Answer>
struct OfReplica {
  int replica = 0;
  std::vector<Answer> answers;
};

/// Sums a replica's votes. Squared norms are added in float64 in the model's canonical parameter
/// order, wherever the parameters lie, so that the norm has the same bits for every layout. `ready`
/// are the replica's Ready answers.
ReplicaPrepared tally(const OfReplica<Prepared>& votes, const OfReplica<Ready>& ready,
                      const std::vector<stages::ParameterInfo>& parameters);

}  // namespace troupe::actors
