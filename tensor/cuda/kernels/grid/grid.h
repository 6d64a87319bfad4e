#pragma once

// What a kernel's source includes, so that two compilers read it: nvcc for a GPU, and g++ as C++
// against an emulated grid of threads (tests/emulated_grid/), on which it is tested without a GPU.
// A kernel uses CUDA's names as they are. Three things have a name of their own here:
//
//   SHARED(T, name, n)   a static shared array, used as name[i] only
//   dynamic_shared<T>()  the block's dynamic shared memory, 16-byte aligned
//   launch(kernel, blocks, threads, shared_bytes, stream, arguments...)
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

/// Queues kernel(arguments...) for a grid of threads. A block gets `shared_bytes` of dynamic shared
/// memory, at most 227 KiB together with its static arrays. Throws Error if the launch is refused.
template <typename... Parameters, typename... Arguments>
void launch(void (*kernel)(Parameters...), dim3 blocks, dim3 threads, std::size_t shared_bytes,
            cudaStream_t stream, const Arguments&... arguments) {
  const void* const address = reinterpret_cast<const void*>(kernel);
  // More than 48 KiB, static arrays included, must be asked for.
  constexpr std::size_t kAlwaysAllowed = 48 * 1024 - kMostStaticBesideDynamic;
  if (shared_bytes > kAlwaysAllowed) {
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
