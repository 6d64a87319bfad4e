#pragma once

#include <boost/test/unit_test.hpp>
#include <cstdio>
#include <cstdlib>

#include "tests/gpu/presence.h"

namespace troupe::test {

/// Ends a test program as skipped on a machine without a GPU. On one with a GPU that cannot be used
/// the program fails, and says why. One translation unit of a program registers it with
/// BOOST_TEST_GLOBAL_FIXTURE.
struct NeedsGpu {
  NeedsGpu() {
    const tensor::DeviceReport report = tensor::report_cuda_devices();
    if (has_no_gpu(report)) {
      std::puts("skipped: no GPU");
      std::fflush(stdout);
      std::_Exit(kSkipped);
    }
    if (report.fault.empty()) return;
    std::printf("this machine has a GPU that cannot be used: %s\n", report.fault.c_str());
    std::fflush(stdout);
    std::_Exit(EXIT_FAILURE);
  }
};

}  // namespace troupe::test
