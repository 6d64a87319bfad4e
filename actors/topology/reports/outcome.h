#pragma once

#include <cstdint>
#include <string>

namespace troupe::actors {

/// How a run ended.
struct Outcome {
  int exit_code = 0;
  std::int64_t step = 0;  ///< last committed step
  std::string reason;  ///< "finished", "stopped by SIGTERM", "rank 1 (...) was killed by signal 9
                       ///< (SIGKILL) ..."
};

}  // namespace troupe::actors
