#pragma once

#include <vector>

#include "actors/topology/configuration.h"
#include "actors/topology/run_spec.h"
#include "tensor/device/device.h"

// What each stage computes with, where stages of a run have several kinds of devices.

namespace troupe::actors {

/// The device of a stage's ranks: of the kind that the run gives the stage, or that of the cluster.
/// Kinds of stages (RunSpec::Cluster::stage_kinds) say nothing of a mesh of another number of
/// stages, as the one is to which a run shrinks: all of it computes with that of the cluster.
tensor::DeviceSpec device_of(const RunSpec& spec, const RunSpec::Mesh& mesh, int stage);
/// Whether two ranks of these compute with devices of different kinds.
bool differ_in_device(const RunSpec& spec, const RunSpec::Mesh& mesh,
                      const std::vector<int>& ranks);
/// Whether any rank of the run may compute with a GPU.
bool uses_gpus(const RunSpec& spec);
/// The ranks of the run's first mesh that do, ascending.
std::vector<int> ranks_on_gpus(const RunSpec& spec);

}  // namespace troupe::actors
