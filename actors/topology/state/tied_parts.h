#pragma once

#include <vector>

#include "actors/topology/configuration.h"
#include "stages/replicas/tied_sums.h"

namespace troupe::actors {

/// Whether the two stages with the uses of a tied matrix, which are not of equal width, sum its
/// gradient over their own replicas, and add only what each rank keeps of these sums: where their
/// shards differ, or what their replicas divide or round. Else one sum over all replicas of both is
/// enough.
bool exchanges_tied_sums(const RunSpec& spec, const ClusterShape& shape);

/// What a rank exchanges then. `tied_ranks`: those of its group in member order, of which it is
/// one. Where several have the same part of a sum, they give it to receivers by turns.
stages::TiedParts tied_parts_of(const RunSpec& spec, const ClusterShape& shape,
                                const std::vector<int>& tied_ranks, int rank);

}  // namespace troupe::actors
