#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/cuda/kernels/grid/grid_types.h"
#include "tensor/cuda/kernels/rows/norm_kernels.h"
#include "tensor/device/one_shot_norm.h"

namespace troupe::tensor::cuda {

/// A call of a OneShotNorm (tensor/device/one_shot_norm.h) on one member. All pointers are this
/// member's, and 16-byte aligned.
struct OneShotSum {
  int members = 1;
  int own = 0;
  const void* parts[kMostOneShotMembers] = {};  ///< by member, norm.dtype
  /// By member, the flags that the others raise there: one for each, by member.
  std::uint64_t* flags[kMostOneShotMembers] = {};
  std::uint64_t call = 0;                ///< number of the call, from 1
  const std::uint64_t* abort = nullptr;  ///< other than 0: nobody waits any more
  const float* bias = nullptr;           ///< null: none
  const void* residual = nullptr;
  void* sum = nullptr;  ///< receives the sum of the parts, bias and residual
  NormForward norm;     ///< of `sum`; w null: there is none
};

/// The elements between two flags: each has a cache line of its own.
inline constexpr std::size_t kFlagStride = 16;

/// Queues the kernel, which may wait for those of the other members.
void launch_one_shot(const OneShotSum& sum, cudaStream_t stream);

}  // namespace troupe::tensor::cuda
