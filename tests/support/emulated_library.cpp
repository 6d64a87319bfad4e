#include <atomic>

#include "tensor/libraries/device_library.h"
#include "tests/support/emulated_device.h"

// libtroupe_cuda.so for launched runs on a machine without a GPU: what the program finds in the
// real one by these names, with an emulated device.

using troupe::tensor::Device;
using troupe::tensor::DeviceReport;
using troupe::tensor::DeviceSpec;

namespace {
/// What the GPU seems to have less once this process has made a device.
constexpr std::size_t kContext = std::size_t{300} << 20;
std::atomic<bool> has_context{false};
}  // namespace

extern "C" Device* troupe_make_device(const DeviceSpec&) {
  constexpr std::uint64_t kSeed = 1;
  has_context = true;
  return new troupe::test::EmulatedDevice(kSeed);
}

extern "C" const char* troupe_interface() {
  return troupe::tensor::interface_hash();
}

extern "C" void troupe_report_devices(DeviceReport& report) {
  constexpr std::size_t kMemory = std::size_t{64} << 30;
  report.driver = "emulated";
  report.emulates = true;
  report.devices.push_back({.name = "Emulated GPU",
                            .uuid = "GPU-00000000-0000-0000-0000-000000000000",
                            .major = 9,
                            .minor = 0,
                            .multiprocessors = 132,
                            .memory_bytes = kMemory,
                            .free_bytes = kMemory - (has_context ? kContext : 0),
                            .peers = {},
                            .shares_memory = true});
}
