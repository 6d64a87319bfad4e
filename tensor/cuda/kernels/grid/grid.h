#pragma once

// What a kernel's source includes, so that two compilers read it: nvcc for a GPU, and g++ as C++
// against an emulated grid of threads (tests/emulated_grid/), on which it is tested without a GPU.
// A kernel uses CUDA's names as they are. Three things have a name of their own here:
//
//   SHARED(T, name, n)   a static shared array, used as name[i] only
//   dynamic_shared<T>()  the block's dynamic shared memory, 16-byte aligned
//   launch(kernel, blocks, threads, shared_bytes, stream, arguments...)
//
// and shared_limit(stream) tells how much shared memory a block may have.
//
// Both compilers see the same arithmetic, except for products that nvcc fuses into sums and its
// approximations of rsqrtf, __expf and the like.

#include <cuda_bf16.h>

#include <cstddef>

#include "tensor/cuda/kernels/grid/grid_types.h"

#ifndef __CUDACC__
#include <emulated_grid.h>
#else
#include <cuda_runtime.h>

#include <algorithm>
#include <string>

#include "tensor/errors/error.h"

#define SHARED(T, name, n) __shared__ T name[n]

namespace troupe::tensor::cuda {

template <typename T>
__device__ __forceinline__ T* dynamic_shared() {
  extern __shared__ uint4 dynamic_shared_memory[];
  return reinterpret_cast<T*>(dynamic_shared_memory);
}

/// Throws Error if a launch of the kernel was refused.
inline void check_launch(cudaError_t error, const void* kernel) {
  if (error == cudaSuccess) return;
  const char* name = nullptr;
  if (cudaFuncGetName(&name, kernel) != cudaSuccess || name == nullptr) name = "a kernel";
  throw Error(ErrorKind::internal, std::string("CUDA: ") + name +
                                       " could not be launched: " + cudaGetErrorString(error));
}

/// Bytes of shared memory that a block may have, static arrays included, on the calling thread's
/// current GPU, whose `stream` it is.
inline std::size_t shared_limit([[maybe_unused]] cudaStream_t stream) {
  int gpu = 0, bytes = 0, major = 0;
  cudaError_t error = cudaGetDevice(&gpu);
  if (error == cudaSuccess)
    error = cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, gpu);
  if (error == cudaSuccess)
    error = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, gpu);
  if (error != cudaSuccess) {
    throw Error(ErrorKind::internal, std::string("CUDA does not tell a block's shared memory: ") +
                                         cudaGetErrorString(error));
  }
  const auto limit = static_cast<std::size_t>(bytes);
  // Later GPUs than those of 12.x run code that was made for these.
  return major >= 12 ? std::min(limit, kSharedOf86) : limit;
}

/// Queues kernel(arguments...) for a grid of threads. A block gets `shared_bytes` of dynamic shared
/// memory, together with its static arrays at most shared_limit(). Throws Error if the launch is
/// refused.
template <typename... Parameters, typename... Arguments>
void launch(void (*kernel)(Parameters...), dim3 blocks, dim3 threads, std::size_t shared_bytes,
            cudaStream_t stream, const Arguments&... arguments) {
  const void* const address = reinterpret_cast<const void*>(kernel);
  if (shared_bytes > kDynamicUnasked) {
    check_launch(cudaFuncSetAttribute(address, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                      static_cast<int>(shared_bytes)),
                 address);
  }
  cudaLaunchConfig_t size{};
  size.gridDim = blocks;
  size.blockDim = threads;
  size.dynamicSmemBytes = shared_bytes;
  size.stream = stream;
  check_launch(cudaLaunchKernelEx(&size, kernel, static_cast<Parameters>(arguments)...), address);
}

}  // namespace troupe::tensor::cuda

#endif
