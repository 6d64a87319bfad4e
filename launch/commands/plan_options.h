#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace troupe::launch {

/// Options of `troupe plan`.
struct PlanOptions {
  std::string manifest;
  std::vector<std::string> overrides;  ///< overrides as table.key=value
  bool json = false;
  bool all = false;      ///< also print keys that have their default
  std::string svg;       ///< file for a drawing of the schedule; empty: none
  double bandwidth = 0;  ///< GB/s between shards; 0: not known
  std::string hosts;     ///< hosts in place of the manifest's, as "a:2,b:2"; empty: those

  std::string machine;       ///< a described machine that the run is planned for; empty: this one
  int devices = 0;           ///< that the run has there; 0: as many as its mesh
  bool search = false;       ///< rank layouts
  int top = 10;              ///< of which so many are shown
  std::string output;        ///< file for the manifest of the first; empty: none
  bool inference = false;    ///< predict inference in the place of training
  std::int64_t batch = 1;    ///< sequences at a time
  std::int64_t context = 0;  ///< tokens of each; 0: batch.seq_len
};

/// Options of `troupe measure`.
struct MeasureOptions {
  std::string output;  ///< file for the description of this machine
  int threads = 1;     ///< of each rank
};

}  // namespace troupe::launch
