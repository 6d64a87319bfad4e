#pragma once

#include <string>
#include <vector>

#include "launch/host/machine.h"
#include "launch/planner/machine_file.h"

namespace troupe::launch {

/// What was measured, and what is to be said of it.
struct Measurement {
  MachineDescription machine;
  std::vector<std::string> lines;     ///< figures with their spread
  std::vector<std::string> warnings;  ///< of figures that are not steady
};

/// Measures the processor of this machine as ranks of so many threads use it: one that computes
/// alone, and as many as have cores at the same time. Takes less than a minute, in which nothing
/// else should run. The caller must have one thread only.
Measurement measure_machine(const Machine& machine, int threads);

}  // namespace troupe::launch
