#pragma once

#include <memory>
#include <vector>

#include "actors/messages/messages.h"
#include "actors/topology/reports/reports.h"
#include "actors/topology/run_spec.h"

namespace troupe::actors {

/// What the stages of a replica measured in a step: their times, and the bytes and waits of each
/// edge. `votes` are ordered by stage.
StepReport::Measured measured(const RunSpec::Mesh& mesh, const std::vector<Prepared>& votes);

/// The losses of a mixture's sources over all replicas, whose sums are added in the order of
/// replicas; none of a single source.
std::vector<StepReport::SourceLoss> losses_of(
    const std::vector<RunSpec::Data::Source>& sources,
    const std::vector<std::shared_ptr<const StepReport::Measured>>& replicas);

/// What the routers of all replicas have done, by layer, added in the order of replicas.
std::vector<StepReport::Router> routers_of(
    const std::vector<std::shared_ptr<const StepReport::Measured>>& replicas);
/// What they add to the loss: means over layers with experts, with the model's coefficients.
double aux_loss_of(const stages::ModelConfig& model,
                   const std::vector<StepReport::Router>& routers);

}  // namespace troupe::actors
