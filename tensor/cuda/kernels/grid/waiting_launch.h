#pragma once

#include <cstddef>

#include "tensor/cuda/kernels/grid/grid.h"

#ifndef __CUDACC__
#include <emulated_waiting_launch.h>
#else

namespace troupe::tensor::cuda {

/// launch() of a kernel that waits for kernels of other GPUs, without dynamic shared memory. The
/// host never waits for it.
template <typename... Parameters, typename... Arguments>
void launch_waiting(void (*kernel)(Parameters...), dim3 blocks, dim3 threads, cudaStream_t stream,
                    const Arguments&... arguments) {
  launch(kernel, blocks, threads, 0, stream, arguments...);
}

}  // namespace troupe::tensor::cuda

#endif
