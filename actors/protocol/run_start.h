#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "actors/protocol/adoption.h"

namespace troupe::actors {

/// What a director begins with.
struct RunStart {
  std::int64_t first_step = 0;   ///< number of updates in the state that the run starts from
  std::int64_t saved_step = -1;  ///< step of a checkpoint in the run directory; -1: none
  std::uint64_t seed = 0;        ///< seed of the workers' incarnations

  // Of a run that is taken over from an earlier director.
  std::vector<LeftWorker> left = {};  ///< workers that may be adopted; empty: it is none such
  std::string left_by = {};           ///< what became of that director, for people
  std::int64_t reported = 0;          ///< the newest step that it has written down
  std::int64_t evaluated = 0;         ///< the newest step that it has evaluated
};

}  // namespace troupe::actors
