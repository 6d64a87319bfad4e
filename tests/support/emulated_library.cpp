#include <spdlog/spdlog.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

#include "tensor/libraries/device_library.h"
#include "tests/support/emulated_device.h"
#include "tests/support/gpu_of_others.h"
#include "tests/support/straying_group.h"

// libtroupe_cuda.so for launched runs on a machine without a GPU: what the program finds in the
// real one by these names, with an emulated device. The environment says what goes wrong:
//   EMULATED_STRAY: "1:40:dtype": after 40 collectives member 1 of a group makes a call that the
//     others do not make, which differs from its last one in operation, count or dtype
//   EMULATED_FULL: a file: while it exists the GPU has no room (gpu_of_others.h)

using troupe::tensor::Device;
using troupe::tensor::DeviceReport;
using troupe::tensor::DeviceSpec;
using troupe::test::GpuOfOthers;
using troupe::test::StrayCall;

namespace {

std::string setting(const char* name) {
  const char* const value = std::getenv(name);
  return value ? value : "";
}

/// What EMULATED_STRAY asks for; nothing without it.
StrayCall stray_call() {
  StrayCall stray{.after = -1};
  char differs[16] = "";
  if (std::sscanf(setting("EMULATED_STRAY").c_str(), "%d:%d:%15s", &stray.member, &stray.after,
                  differs) == 3)
    stray.differs = std::string(differs) == "count"   ? StrayCall::Differs::count
                    : std::string(differs) == "dtype" ? StrayCall::Differs::dtype
                                                      : StrayCall::Differs::operation;
  return stray;
}

/// The emulated device with what goes wrong.
class LaunchedDevice final : public troupe::test::EmulatedDevice {
 public:
  using EmulatedDevice::EmulatedDevice;

  troupe::tensor::Buffer allocate(std::size_t bytes, troupe::tensor::MemoryKind kind) override {
    if (kind == troupe::tensor::MemoryKind::device) others_.wait_for_room(bytes);
    return EmulatedDevice::allocate(bytes, kind);
  }
  troupe::tensor::MadeGroup make_group(const troupe::tensor::GroupSpec& spec,
                                       troupe::tensor::ProcessGroup& hosts) override {
    auto made = EmulatedDevice::make_group(spec, hosts);
    if (made.group && stray_.after >= 0)
      made.group =
          std::make_unique<troupe::test::StrayingGroup>(std::move(made.group), hosts, stray_);
    return made;
  }

 private:
  StrayCall stray_ = stray_call();
  GpuOfOthers others_{setting("EMULATED_FULL"),
                      [](const std::string& what) { spdlog::warn("{}", what); }};
};

/// What the GPU seems to have less once this process has made a device.
constexpr std::size_t kContext = std::size_t{300} << 20;
std::atomic<bool> has_context{false};
}  // namespace

extern "C" Device* troupe_make_device(const DeviceSpec&) {
  constexpr std::uint64_t kSeed = 1;
  has_context = true;
  return new LaunchedDevice(kSeed);
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
