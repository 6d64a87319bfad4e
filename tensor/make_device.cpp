#include "tensor/device.h"
#include "tensor/device_library.h"

namespace troupe::tensor {

std::unique_ptr<Device> make_device(const DeviceSpec& spec) {
  return spec.kind == DeviceKind::cpu ? make_cpu_device(spec.threads) : make_cuda_device(spec);
}

}  // namespace troupe::tensor
