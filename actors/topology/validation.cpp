#include "actors/topology/validation.h"

#include <algorithm>
#include <array>

#include "actors/topology/state/state_plan.h"

namespace troupe::actors {

bool stages_end_apart(const std::string& kind) {
  constexpr std::array kKinds{"zb-h2", "zb-2p", "zb-auto", "zb-v", "zb-v-static"};
  return std::ranges::find(kKinds, kind) != kKinds.end();
}

bool updates_ahead(const RunSpec& spec, const RunSpec::Mesh& mesh,
                   const RunSpec::Schedule& schedule) {
  if (mesh.pp == 1) return false;
  switch (spec.validation) {
    case RunSpec::Validation::barrier:
      return false;
    case RunSpec::Validation::post:
      return true;
    case RunSpec::Validation::automatic:
      break;
  }
  return stages_end_apart(schedule.kind) && copies_state(spec, mesh);
}

bool tells_of_copies(const RunSpec& spec, const ClusterShape& shape) {
  return updates_ahead(spec, shape) && copies_state(spec, shape) &&
         spec.recovery.copy_interval == 1;
}

}  // namespace troupe::actors
