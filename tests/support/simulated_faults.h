#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "actors/topology/reports/reports.h"

namespace troupe::actors {

/// What came of a simulated run.
struct SimResult {
  Outcome outcome;
  std::map<std::int64_t, std::uint64_t> committed;  // the state that each step has produced
  std::set<std::int64_t> published;                 // checkpoints
  std::set<std::int64_t> evaluated;                 // steps
  int went_back = 0;                                // times
  int lost_steps = 0;  // configurations that began from files, and before the newest step
  int answered = 0;                                 // orders
  int saved = 0;                                    // orders of a checkpoint that was made
  int lost_parts = 0;                  // losses without which the others could not go on
  int hosts_lost = 0, hosts_left = 0;  // as they were reported
  int grown = 0, shrunk = 0;           // configurations that all ranks reached
  std::string broken;                  // the promise that was broken; empty if none was
};

/// What the machine has too little of for some time: so many of the next starts of workers fail,
/// of the next orders to halt or to begin a configuration, and of the next checkpoints. With
/// `data` a worker's error says that a file is gone.
struct Shortage {
  int starts = 0;
  int orders = 0;
  int saves = 0;
  bool data = false;
};

/// So many hosts are lost, at any moment, are to be left, and join anew, as far as there are any.
/// One at least stays, unless `to_the_last`.
struct HostFaults {
  int losses = 0;
  int drains = 0;
  int joins = 0;
  bool to_the_last = false;
};

}  // namespace troupe::actors
