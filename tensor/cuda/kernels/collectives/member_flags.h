#pragma once

#include <cstdint>

#include "tensor/cuda/kernels/grid/grid.h"

#ifndef __CUDACC__
#include <atomic>
#include <thread>
#endif

// Numbers by which kernels of several GPUs tell each other, in memory that all of them reach (PTX
// ISA, "Memory Consistency Model": release and acquire at system scope).

namespace troupe::tensor::cuda {

using Flag = std::uint64_t;

/// Writes a flag of any member after all that this thread, and kernels before this one on its
/// stream, have written.
__device__ __forceinline__ void raise_flag(Flag* flag, Flag value) {
#ifdef __CUDACC__
  asm volatile("st.release.sys.u64 [%0], %1;" ::"l"(flag), "l"(value) : "memory");
#else
  std::atomic_ref(*flag).store(value, std::memory_order_release);
#endif
}

/// Reads a flag. What was written before that value was raised is seen by what this thread does
/// later, and by others after a barrier with it.
__device__ __forceinline__ Flag read_flag(const Flag* flag) {
#ifdef __CUDACC__
  Flag value;
  asm volatile("ld.acquire.sys.u64 %0, [%1];" : "=l"(value) : "l"(flag) : "memory");
  return value;
#else
  return std::atomic_ref(*const_cast<Flag*>(flag)).load(std::memory_order_acquire);
#endif
}

/// Leaves the processor to others for a moment.
__device__ __forceinline__ void relax() {
#ifdef __CUDACC__
  __nanosleep(32);
#else
  std::this_thread::yield();
#endif
}

/// Waits until the flag is `value` or larger. False if `abort` became other than 0 meanwhile. That
/// one lies in the host's memory, and is looked at less often: it takes a microsecond to read.
__device__ __forceinline__ bool wait_for(const Flag* flag, Flag value, const Flag* abort) {
  constexpr unsigned kLooks = 32;
  for (unsigned looks = 0; read_flag(flag) < value; ++looks) {
    if (looks % kLooks == kLooks - 1 && read_flag(abort) != 0) return false;
    relax();
  }
  return true;
}

}  // namespace troupe::tensor::cuda
