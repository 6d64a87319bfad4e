#pragma once

#include <cstdint>
#include <string>

namespace troupe::actors {

/// What happened to a worker.
struct Loss {
  std::uint64_t incarnation = 0;
  std::string what;           ///< what follows its name in a sentence
  std::uint32_t attempt = 0;  ///< number of the attempt that it belongs to (WorkerFailures)
  double now_s = 0;
};

/// What is lost with a worker, or with all of a host.
struct Standing {
  int rank = -1;           ///< in the configuration that was running; -1: none
  bool has_part = false;   ///< the others cannot go on without it
  bool newcomer = false;   ///< only an ordered change needs it
  bool has_begun = false;  ///< it may have connected to others
};

/// Why the others gather anew.
struct RegroupCause {
  std::string cause;
  std::string host;           ///< on which; empty in a run on one machine
  bool whole_host = false;    ///< it is lost itself
  std::uint32_t attempt = 0;  ///< as Loss::attempt
  double now_s = 0;
};

}  // namespace troupe::actors
