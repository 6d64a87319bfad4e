#include <spdlog/spdlog.h>

#include <string>

#include "tensor/cuda/cuda_device.h"
#include "tensor/cuda/runtime/gpus.h"
#include "tensor/libraries/device_library.h"

// What the program finds in libtroupe_cuda.so, once it is open, by these names; library.map hides
// everything else.

using troupe::tensor::Device;
using troupe::tensor::DeviceReport;
using troupe::tensor::DeviceSpec;

/// A device that the caller owns. Throws as make_cuda_device() of tensor/libraries/device_library.h
/// does.
extern "C" Device* troupe_make_device(const DeviceSpec& spec) {
  return new troupe::tensor::cuda::CudaDevice(
      spec, [](const std::string& what) { spdlog::warn("{}", what); });
}

/// The interface_hash() of the headers that the library was built from.
extern "C" const char* troupe_interface() {
  return troupe::tensor::interface_hash();
}

/// Adds to `report` what report_cuda_devices() tells of the driver and its GPUs.
extern "C" void troupe_report_devices(DeviceReport& report) {
  troupe::tensor::cuda::report_gpus(report);
}
