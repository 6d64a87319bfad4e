#pragma once

#include "actors/topology/configuration.h"
#include "schedules/analysis/costs.h"

namespace troupe::actors {

/// What the actions of each chunk take before any are measured, in units of the forward of all
/// layers on batch.micro samples: unit_costs() of the chunk's part of the layers, on as many
/// samples as its stage computes at a time, which the shards share. Every layer takes as long; so
/// does every chunk where the layout is made for that, as mesh.layout ends and parameters are.
schedules::Costs layer_costs(const RunSpec& spec, const ClusterShape& shape);

}  // namespace troupe::actors
