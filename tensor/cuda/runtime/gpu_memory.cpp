#include "tensor/cuda/runtime/gpu_memory.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <thread>
#include <utility>

#include "tensor/cuda/runtime/cuda_error.h"
#include "tensor/errors/error.h"

namespace troupe::tensor::cuda {
namespace {

constexpr std::chrono::milliseconds kPause{50};

double mebi(std::size_t bytes) {
  return static_cast<double>(bytes) / (1 << 20);
}

double seconds(std::chrono::milliseconds time) {
  return std::chrono::duration<double>(time).count();
}

}  // namespace

DeviceMemory memory_of_gpu() {
  std::size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  return {.used = total - free, .total = total};
}

GpuMemory::GpuMemory(std::string gpu, Tell tell, std::chrono::milliseconds patience)
    : gpu_(std::move(gpu)),
      tell_(std::move(tell)),
      patience_(patience),
      used_at_start_(memory_of_gpu().used) {}

void* GpuMemory::allocate(std::size_t bytes) {
  for (;;) {
    void* data = nullptr;
    const cudaError_t code = cudaMalloc(&data, bytes);
    if (code != cudaErrorMemoryAllocation) {
      check(code, "cudaMalloc");
      return data;
    }
    (void)cudaGetLastError();  // it does not stick
    if (!wait_a_little(bytes)) refuse(bytes);
  }
}

bool GpuMemory::may_get_room(std::size_t bytes) const {
  const DeviceMemory now = memory_of_gpu();
  return bytes <= now.total - now.used + used_at_start_;
}

/// False if there is nothing to wait for, or no patience left.
bool GpuMemory::wait_a_little(std::size_t bytes) {
  if (!may_get_room(bytes)) return false;
  {
    const std::lock_guard lock(mutex_);
    if (waited_ >= patience_) return false;
    if (waited_.count() == 0)
      tell_(
          fmt::format("{} has no room for {:.1f} MiB more: waits up to {:g} s for memory of other "
                      "processes, of which one may have ended just now",
                      gpu_, mebi(bytes), seconds(patience_)));
    waited_ += kPause;
  }
  std::this_thread::sleep_for(kPause);
  return true;
}

void GpuMemory::refuse(std::size_t bytes) {
  const DeviceMemory all = memory_of_gpu();
  std::string text =
      fmt::format("{} has no room for {:.1f} MiB more: {:.1f} of its {:.1f} MiB are in use", gpu_,
                  mebi(bytes), mebi(all.used), mebi(all.total));
  const std::lock_guard lock(mutex_);
  if (waited_.count() > 0)
    text += fmt::format(", also after {:g} s of waiting for other processes to give theirs back",
                        seconds(waited_));
  throw Error(ErrorKind::internal, text);
}

}  // namespace troupe::tensor::cuda
