#pragma once

#include <vector>

#include "actors/messages/messages.h"
#include "actors/topology/assembly.h"
#include "stages/stage/stage.h"
#include "tensor/device/device.h"

namespace troupe::actors {

/// The histograms of what this rank is the first to keep of each weight and gradient, so that the
/// parts of all ranks are each tensor once: neither copies, nor padding, nor what other instances
/// or replicas have alike. Called when the gradients of the step are complete, before the update.
/// A frozen parameter has no gradient here.
std::vector<ParameterHistograms> histograms_of(const stages::Stage& stage,
                                               const stages::ModelConfig& model,
                                               const RankAssembly& part, const RunStep& order,
                                               int rank, tensor::Device& device);

}  // namespace troupe::actors
