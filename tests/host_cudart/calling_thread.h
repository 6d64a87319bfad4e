#pragma once

namespace troupe::host_cudart {

/// The calling thread's current GPU, which cudaSetDevice() chooses.
inline int& calling_threads_gpu() {
  static thread_local int gpu = 0;
  return gpu;
}

inline bool is_mine(int gpu) {
  return gpu == calling_threads_gpu();
}

}  // namespace troupe::host_cudart
