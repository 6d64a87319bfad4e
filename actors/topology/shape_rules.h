#pragma once

#include <cstdint>
#include <string>

#include "actors/topology/run_spec.h"

// Which meshes and schedules a run can have. A manifest and an order to change the cluster ask the
// same rules, and tell of a broken one in the words of their user: keys or options.

namespace troupe::actors {

/// Whether each replica gets as many whole microbatches as any other.
bool shares_evenly(const RunSpec::Batch& batch, std::int64_t dp);

/// Why `tp` shards cannot divide the model, or with sequence parallelism its sequences; empty if
/// they can.
std::string fault_of_shards(const RunSpec& spec, bool sequence_parallel, int tp);

/// Why the mesh's replicas cannot share out the experts (Mesh::ep); empty if they can.
std::string fault_of_experts(const RunSpec& spec, const RunSpec::Mesh& mesh);

/// Why the stages of a mesh cannot have their widths; empty if they can, and for stages that are
/// alike.
std::string fault_of_widths(const RunSpec::Mesh& mesh, const RunSpec::Schedule& schedule);

/// Why two stages that keep copies of the same layers, as many from the first as from the last,
/// cannot have their widths; empty if they can.
std::string fault_of_mirrors(const RunSpec::Mesh& mesh);

/// How many copies of the parameters the schedule keeps; 1 for a csv plan and for unknown kinds.
int copies_of(const RunSpec::Schedule& schedule);

/// The most chunks that can have a layer each; of two copies both count.
std::int64_t most_chunks(const RunSpec& spec, const RunSpec::Schedule& schedule);

/// Why the generator of the schedule has no plan for the mesh; empty if it has one, and for a csv
/// plan. Requires a kind that generator_of() knows, or csv.
std::string fault_of_schedule(const RunSpec::Batch& batch, const RunSpec::Mesh& mesh,
                              const RunSpec::Schedule& schedule);

}  // namespace troupe::actors
