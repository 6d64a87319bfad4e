#pragma once

#include <string>
#include <vector>

namespace troupe::launch {

/// One thing that a run needs of a machine.
struct Checkup {
  enum class Result { ok, warning, failure };
  Result result = Result::ok;
  std::string what;    ///< "shared memory"
  std::string detail;  ///< what was found, and what to do about it
};

/// Looks at this machine: cores, memory, shared memory, loopback, the data plane, libraries.
/// Changes nothing that lasts.
std::vector<Checkup> examine_machine();

/// "ok    cores          2 free\n".
std::string to_text(const Checkup& checkup);

}  // namespace troupe::launch
