#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <memory>

#include "tensor/libraries/device_library.h"
#include "tests/support/test_device.h"

// A libtroupe_cuda.so whose GPUs are asynchronous devices of the host, so that launched runs
// compute on them as they would on GPUs. The environment variable TROUPE_ASYNC_FAULT may name a
// file that holds numbers: the first device of all processes that comes to its op of the first
// number fails, and the next number, if any, is then the first. TROUPE_ASYNC_MEMORY says how many
// bytes the device of each process has.

namespace {

bool fails(std::uint64_t op) {
  const char* const path = std::getenv("TROUPE_ASYNC_FAULT");
  if (!path) return false;
  std::ifstream file(path);
  std::uint64_t failing = 0, next = 0;
  if (!(file >> failing) || op != failing || unlink(path) != 0) return false;
  if (file >> next) std::ofstream(path) << next << file.rdbuf();
  return true;
}

std::size_t memory_of_device() {
  const char* const bytes = std::getenv("TROUPE_ASYNC_MEMORY");
  return bytes ? std::strtoull(bytes, nullptr, 10) : 0;
}

}  // namespace

extern "C" {

__attribute__((visibility("default"))) const char* troupe_interface() {
  return troupe::tensor::interface_hash();
}

__attribute__((visibility("default"))) void troupe_report_devices(
    troupe::tensor::DeviceReport& report) {
  constexpr int kDevices = 8;
  report.driver = "none: devices of tests";
  report.emulates = true;
  for (int i = 0; i < kDevices; ++i)
    report.devices.push_back({.name = "asynchronous device of tests",
                              .uuid = "GPU-" + std::to_string(i),
                              .major = 9,
                              .multiprocessors = 1,
                              .memory_bytes = std::size_t{64} << 30,
                              .free_bytes = std::size_t(32 + i) << 30,  // most on the last one
                              .shares_memory = true});
}

__attribute__((visibility("default"))) troupe::tensor::Device* troupe_make_device(
    const troupe::tensor::DeviceSpec& spec) {
  return std::make_unique<troupe::test::AsyncDevice>(
             troupe::test::fresh_device_seed(), spec.threads, fails,
             troupe::test::HostMemory::pinned, memory_of_device())
      .release();
}
}
