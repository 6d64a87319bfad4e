#include "tensor/cuda/peers/kernel_one_shot_norm.h"

#include <atomic>
#include <utility>

#include "tensor/cuda/runtime/kernel_stream.h"
#include "tensor/errors/error.h"

namespace troupe::tensor::cuda {
namespace {

constexpr std::size_t kFlagBytes = OneShotDevice::kShared - 2 * kMostOneShotBytes;
static_assert(kFlagBytes >= kMostOneShotMembers * kFlagStride * sizeof(std::uint64_t));

bool is_aligned(const Tensor& x) {
  return reinterpret_cast<std::uintptr_t>(x.data) % 16 == 0;
}

}  // namespace

KernelOneShotNorm::KernelOneShotNorm(Device& device, PeerMemory memory)
    : memory_(std::move(memory)),
      abort_(device.allocate(sizeof(std::uint64_t), MemoryKind::pinned)) {
  TROUPE_ASSERT(memory_.size() <= kMostOneShotMembers);
}

std::byte* KernelOneShotNorm::part_of(int member, std::uint64_t call) const {
  return memory_.of(member) + kFlagBytes + call % 2 * kMostOneShotBytes;
}

Tensor KernelOneShotNorm::part(DType dtype, const Shape& shape) {
  TROUPE_ASSERT(serves(dtype, shape));
  return {part_of(memory_.member, calls_ + 1), dtype, shape};
}

void KernelOneShotNorm::run(Stream& stream, const OneShotCall& call) {
  const DType dtype = call.sum.dtype;
  TROUPE_ASSERT(serves(dtype, call.sum.shape) && call.residual.shape == call.sum.shape);
  for (const Tensor* x :
       {&call.bias, &call.residual, &call.sum, &call.weight, &call.shift, &call.normed})
    TROUPE_ASSERT(is_aligned(*x));
  OneShotSum sum{.members = memory_.size(),
                 .own = memory_.member,
                 .call = ++calls_,
                 .abort = static_cast<const std::uint64_t*>(abort_.data()),
                 .bias = call.bias.as<float>(),
                 .residual = call.residual.data,
                 .sum = call.sum.data,
                 .norm = {.dtype = dtype,
                          .rows = call.sum.shape[0],
                          .columns = call.sum.shape[1],
                          .x = call.sum.data,
                          .w = call.weight.as<float>(),
                          .b = call.shift.as<float>(),
                          .eps = call.eps,
                          .plus = call.plus,
                          .y = call.normed.data,
                          .mean = call.mean.as<float>(),
                          .rstd = call.rstd.as<float>()}};
  for (int member = 0; member < memory_.size(); ++member) {
    sum.parts[member] = part_of(member, calls_);
    sum.flags[member] = reinterpret_cast<std::uint64_t*>(memory_.of(member));
  }
  launch_one_shot(sum, handle_of(stream));
}

void KernelOneShotNorm::abort(const std::string& reason) {
  {
    const std::lock_guard lock(mutex_);
    if (fault_.empty()) fault_ = reason;
  }
  std::atomic_ref(*static_cast<std::uint64_t*>(abort_.data())).store(1, std::memory_order_release);
}

std::string KernelOneShotNorm::fault() const {
  const std::lock_guard lock(mutex_);
  return fault_;
}

}  // namespace troupe::tensor::cuda
