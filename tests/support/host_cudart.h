#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

namespace troupe::test {

/// CUDA's runtime for machines without a GPU, linked in its place: two GPUs whose streams run only
/// when they are told to, or when somebody synchronizes with them. Memory is the host's and starts
/// as 0xff. A synchronization runs no more than it needs. A call with a stream or event of another
/// GPU than the calling thread's current one is refused, and so is freeing memory while a stream
/// has work left. Used by one thread at a time.
class HostCudart {
 public:
  /// A machine with nothing queued, nothing allocated, and the settings below.
  static HostCudart& reset();
  static HostCudart& get();

  /// Runs all streams until nothing is left that can run.
  void run();

  int major = 9;                              ///< compute capability of both GPUs
  std::size_t memory = std::size_t{1} << 30;  ///< of each GPU
  std::size_t used = 0;                       ///< of the GPUs' memory, by cudaMalloc
  cudaError_t next_record = cudaSuccess;      ///< what the next cudaEventRecord returns
  float stamp_ms = 0;                         ///< the time that events take when they are reached
};

}  // namespace troupe::test
