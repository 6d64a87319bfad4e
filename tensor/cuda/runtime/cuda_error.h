#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>

namespace troupe::tensor::cuda {

/// Throws DeviceError unless `code` is cudaSuccess. `call` names what was called. After an
/// error other than a lack of memory every later call of the process may fail, too: it has to end,
/// and another worker takes its place. A lack of memory is told apart with its numbers by
/// CudaDevice::allocate().
void check(cudaError_t code, const char* call);
/// Throws Error{internal} unless `status` is CUBLAS_STATUS_SUCCESS.
void check(cublasStatus_t status, const char* call);

}  // namespace troupe::tensor::cuda
