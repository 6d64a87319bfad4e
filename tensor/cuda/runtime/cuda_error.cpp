#include "tensor/cuda/runtime/cuda_error.h"

#include <fmt/format.h>

#include "tensor/errors/device_error.h"

namespace troupe::tensor::cuda {

void check(cudaError_t code, const char* call) {
  if (code == cudaSuccess) return;
  throw DeviceError(
      fmt::format("CUDA: {} failed with {} ({}: {}). This process can use its GPU no more "
                  "and ends; if a new one fails in the same way, look at dmesg for a line "
                  "with Xid, or run compute-sanitizer",
                  call, static_cast<int>(code), cudaGetErrorName(code), cudaGetErrorString(code)));
}

void check(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw Error(ErrorKind::internal,
              fmt::format("cuBLASLt: {} failed with {} ({}). This process ends; the environment "
                          "variable CUBLASLT_LOG_LEVEL=2 shows what a new one passes to cuBLASLt",
                          call, static_cast<int>(status), cublasLtGetStatusString(status)));
}

}  // namespace troupe::tensor::cuda
