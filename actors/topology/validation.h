#pragma once

#include "actors/topology/configuration.h"
#include "actors/topology/run_spec.h"

// Whether the ranks of a shape update their weights before they know the norm of the whole model's
// gradient (RunSpec::Validation). Director and workers derive it alike.

namespace troupe::actors {

/// Whether a step of this schedule is shorter without a barrier: in zb-h2, zb-2p, zb-auto, zb-v and
/// zb-v-static later stages begin and end later. In all others all end when the first does.
bool stages_end_apart(const std::string& kind);

/// Whether a rank that is ordered to run step k + 1 before k is committed makes the update of k at
/// once, as if nothing was clipped, and runs schedules::actions_ahead() of k + 1. Once it learns
/// what k is committed with, it makes the update again if that is another, and goes on. One stage
/// has nothing to run ahead. A stage keeps its state before an update for that;
/// Validation::automatic does it where that is kept for recovery already, and stages end apart.
bool updates_ahead(const RunSpec& spec, const RunSpec::Mesh& mesh,
                   const RunSpec::Schedule& schedule);
inline bool updates_ahead(const RunSpec& spec, const ClusterShape& shape) {
  return updates_ahead(spec, shape.mesh, shape.schedule);
}
/// With the mesh and the schedule that the run begins with.
inline bool updates_ahead(const RunSpec& spec) {
  return updates_ahead(spec, spec.mesh, spec.schedule);
}

/// What a simulation of a step of this shape waits for.
inline schedules::Barrier barrier_of(const RunSpec& spec, const ClusterShape& shape) {
  return updates_ahead(spec, shape) ? schedules::Barrier::ahead : schedules::Barrier::global;
}

/// Whether ranks tell the director of each copy that has come to them, which then orders no step
/// ahead before all have. The update of k overwrites the state of k - 2: by then that of k - 1 must
/// be held elsewhere too. With a copy_interval all go back to a copied state, which ranks keep of
/// themselves too.
bool tells_of_copies(const RunSpec& spec, const ClusterShape& shape);

/// The factor that an update ahead is made with, as stages::clip_factor(): nothing is clipped.
inline constexpr double kFactorAhead = 1;

}  // namespace troupe::actors
