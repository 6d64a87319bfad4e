#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "actors/topology/run_spec.h"
#include "schedules/planner/machine_model.h"

namespace troupe::launch {

/// What a search may change of a run.
struct CandidateLayout {
  actors::RunSpec::Mesh mesh;
  std::string split;  ///< mesh.layout
  std::string kind;   ///< schedule.kind
  int chunks = 1;
  std::int64_t micro = 1;
  stages::Recompute::Mode recompute = stages::Recompute::Mode::none;
  stages::StateDivision division = stages::StateDivision::none;
  double estimate_s = 0;  ///< of a step, by the closed form
};

/// Layouts that cannot be, by their reason.
struct Exclusion {
  std::int64_t count = 0;
  std::int64_t least_missing_bytes = 0;  ///< of memory; 0: it is another reason
};
using Exclusions = std::map<std::string, Exclusion>;
/// Counts one more, which lacks so many bytes.
void exclude(Exclusions& exclusions, const std::string& reason, std::int64_t missing_bytes = 0);
inline constexpr const char* kNoMemory = "memory";

/// The run with another layout; what that does not name stays.
actors::RunSpec with_layout(actors::RunSpec spec, const CandidateLayout& layout);

struct SearchSpace {
  std::int64_t considered = 0;
  std::vector<CandidateLayout> layouts;  ///< that may fit by formula; the fastest estimate first
  Exclusions exclusions;
};
/// All layouts of so many devices, with stages of at most `most_shards` shards.
SearchSpace search_space(const actors::RunSpec& spec, const schedules::MachineModel& machine,
                         int devices, int most_shards);

}  // namespace troupe::launch
