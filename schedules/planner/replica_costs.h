#pragma once

#include <vector>

#include "schedules/analysis/simulate.h"
#include "schedules/planner/chunk_work.h"

namespace troupe::schedules {

/// Adds what passes of one microbatch of a chunk with so many parameters wait for other replicas.
void add_replica_waits(const Work& work, const Operations& operations, double parameters,
                       ChunkCosts& costs);

/// The reductions of a step that its passes and those of other ranks leave uncovered, and the sum
/// of a tied embedding. `stages` are Work::of_stage(), `chunks` all of the plan, of every copy.
double exposed_reductions(const std::vector<Work>& stages, const Operations& operations,
                          const Plan& plan, const std::vector<ChunkWork>& chunks,
                          const Simulation& simulation);

/// About the same without a plan, for a first stage with so many parameters whose last backwards
/// take so long, `most` being the parameters of the fullest one.
double estimated_reductions(const Work& work, const Operations& operations, double parameters,
                            double backwards, double most);

/// The update of the rank with the most parameters.
double optimizer_time(const Work& work, const Operations& operations, double parameters);
/// The gather of weights that other replicas have updated.
double weights_gather(const Work& work, const Operations& operations, double parameters);

}  // namespace troupe::schedules
