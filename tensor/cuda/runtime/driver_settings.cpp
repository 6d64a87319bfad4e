#include "tensor/cuda/runtime/driver_settings.h"

#include <cstdlib>

namespace troupe::tensor::cuda {

void set_driver_environment() {
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
  setenv("CUDA_MODULE_LOADING", "EAGER", 0);
}

}  // namespace troupe::tensor::cuda
