#pragma once

#include <cstdint>
#include <mutex>
#include <string>

#include "tensor/cuda/kernels/collectives/one_shot_kernels.h"
#include "tensor/device/one_shot_norm.h"

namespace troupe::tensor::cuda {

/// A OneShotNorm by a kernel of ours, on a device whose streams are KernelStreams. A member's piece
/// of memory has a flag for each member, then two buffers, which calls use in turn.
///
/// Two are enough for one meeting of a call. Member m writes its part of call k + 2 where that of
/// call k was, after its kernel of call k + 1, which has waited until every member p raised its
/// flag of call k + 1. Member p does that in its kernel of that call, which begins after its kernel
/// of call k has ended, and with it all that p reads of call k.
class KernelOneShotNorm final : public OneShotNorm {
 public:
  KernelOneShotNorm(Device& device, PeerMemory memory);

  Tensor part(DType dtype, const Shape& shape) override;
  void run(Stream& stream, const OneShotCall& call) override;
  void abort(const std::string& reason) override;
  std::string fault() const override;

 private:
  /// Where a call's part of a member is.
  std::byte* part_of(int member, std::uint64_t call) const;

  const PeerMemory memory_;
  const Buffer abort_;  // pinned: a number, which kernels that wait look at
  std::uint64_t calls_ = 0;
  mutable std::mutex mutex_;  // guards fault_
  std::string fault_;
};

}  // namespace troupe::tensor::cuda
