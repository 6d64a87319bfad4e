#pragma once

#include <filesystem>

#include "tensor/libraries/device_library.h"

namespace troupe::test {

/// The exit code by which CTest and tests/gpu/run count a program as skipped.
inline constexpr int kSkipped = 77;

/// Whether the machine that the report is of has no GPU: neither one that the libraries see nor the
/// driver's device file. A GPU that is there but cannot be used is no reason to skip a test.
inline bool has_no_gpu(const tensor::DeviceReport& report) {
  const bool is_seen = !report.devices.empty() && !report.emulates;
  return !is_seen && !std::filesystem::exists("/dev/nvidiactl");
}

}  // namespace troupe::test
