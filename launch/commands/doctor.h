#pragma once

#include <string>
#include <vector>

namespace troupe::launch {

/// The result of checking one thing that a run needs of a machine.
struct Checkup {
  enum class Result { ok, warning, failure };
  Result result = Result::ok;
  std::string what;    ///< what was checked: "shared memory"
  std::string detail;  ///< what was found, and what to do about it
};

/// Examines this machine: cores, memory, shared memory, loopback, the data plane, libraries. Makes
/// no lasting change.
std::vector<Checkup> examine_machine();

/// A check-up as a line: "ok    cores          2 free\n".
std::string to_text(const Checkup& checkup);

}  // namespace troupe::launch
