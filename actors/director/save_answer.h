#pragma once

#include <cstdint>
#include <string>

namespace troupe::actors {

/// What became of an order to make a checkpoint.
struct SaveAnswer {
  int code = 0;            ///< 0: the checkpoint is complete; else an exit code
  std::int64_t step = -1;  ///< of the checkpoint
  std::string text;        ///< why there is none
};

}  // namespace troupe::actors
