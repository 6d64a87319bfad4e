#pragma once

#include <string>
#include <vector>

#include "tensor/libraries/device_library.h"

namespace troupe::launch {

/// The result of checking one thing that a run needs of a machine.
struct Checkup {
  enum class Result { ok, warning, failure };
  Result result = Result::ok;
  std::string what;    ///< what was checked: "shared memory"
  std::string detail;  ///< what was found, and what to do about it
};

/// What a report says about GPUs, driver and libraries. That there is no GPU is told, but is no
/// failure: runs on the CPU need none.
std::vector<Checkup> examine_gpus(const tensor::DeviceReport& report);

/// Examines this machine: cores, memory, shared memory, loopback, the data plane, libraries; `gpus`
/// is what own_gpus() tells of it. Makes no lasting change.
std::vector<Checkup> examine_machine(const tensor::DeviceReport& gpus);

/// A check-up as a line: "ok    cores          2 free\n".
std::string to_text(const Checkup& checkup);

}  // namespace troupe::launch
