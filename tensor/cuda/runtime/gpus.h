#pragma once

#include <cuda_runtime_api.h>

#include "tensor/libraries/device_library.h"

namespace troupe::tensor::cuda {

/// The number of GPUs that this process can use, at least 1. The first call of CUDA: it sets the
/// driver's environment (driver_settings.h). Throws Error{unavailable} that says
/// why there is none: no driver, one that is too old, or no GPU.
int count_gpus();
/// Throws Error{unavailable} unless there is such a GPU and this build's kernels run on it.
cudaDeviceProp properties_of_usable_gpu(int index);
/// Adds the driver, the runtime and the GPUs to `report`. Makes no context, so that it takes no
/// memory of a GPU. Sets the fault if no GPU runs this build's kernels.
void report_gpus(DeviceReport& report);

}  // namespace troupe::tensor::cuda
