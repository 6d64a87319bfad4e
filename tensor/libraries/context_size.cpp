#include "tensor/libraries/context_size.h"

#include <map>
#include <string>

#include "tensor/errors/error.h"

namespace troupe::tensor {
namespace {

/// Less memory than this is left to those who need it.
constexpr std::size_t kLeastFree = std::size_t{2} << 30;
/// What no context takes: another process has taken or freed memory meanwhile.
constexpr std::size_t kLeast = std::size_t{16} << 20, kMost = std::size_t{2} << 30;

std::size_t free_bytes_of(std::size_t index) {
  const DeviceReport report = report_cuda_devices();
  return index < report.devices.size() ? report.devices[index].free_bytes : 0;
}

/// 0 if it cannot be measured.
std::size_t measured(std::size_t index, std::size_t before) try {
  if (before < kLeastFree) return 0;
  const auto device =
      make_cuda_device({.kind = DeviceKind::cuda, .index = static_cast<int>(index)});
  const std::size_t after = free_bytes_of(index);
  if (after == 0 || after >= before) return 0;
  const std::size_t bytes = before - after;
  return bytes >= kLeast && bytes <= kMost ? bytes : 0;
} catch (const Error&) {
  return 0;  // who uses the GPU is told why it cannot be used
}

}  // namespace

void measure_contexts(DeviceReport& report) {
  std::map<std::string, std::size_t> by_name;
  for (std::size_t i = 0; i < report.devices.size(); ++i) {
    DeviceInfo& gpu = report.devices[i];
    std::size_t& bytes = by_name[gpu.name];
    if (bytes == 0) bytes = measured(i, gpu.free_bytes);
  }
  for (DeviceInfo& gpu : report.devices) gpu.context_bytes = by_name[gpu.name];
}

}  // namespace troupe::tensor
