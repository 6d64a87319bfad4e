#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <mutex>
#include <string>

#include "tensor/device/device.h"

namespace troupe::tensor::cuda {

/// Bytes of the calling thread's GPU.
DeviceMemory memory_of_gpu();

/// Gives memory of a GPU, plainly, one piece per call. The driver takes some seconds to give back
/// what a process held that has died, while another takes its place. So a call that finds no room
/// waits, if there would be enough without what other processes held at the start; all calls
/// together not longer than `patience`. The calling thread's GPU is always the one. Any thread may
/// call.
class GpuMemory {
 public:
  using Tell = std::function<void(const std::string&)>;
  static constexpr std::chrono::milliseconds kPatience{10'000};

  /// `gpu` names it in texts. `tell` is called when the first call waits.
  GpuMemory(std::string gpu, Tell tell, std::chrono::milliseconds patience = kPatience);

  /// To be given back by cudaFree. Throws Error{internal} with the numbers if there is no room.
  void* allocate(std::size_t bytes);

 private:
  bool may_get_room(std::size_t bytes) const;
  bool wait_a_little(std::size_t bytes);
  [[noreturn]] void refuse(std::size_t bytes);

  const std::string gpu_;
  const Tell tell_;
  const std::chrono::milliseconds patience_;
  const std::size_t used_at_start_;  ///< by other processes, and by this one's context
  std::mutex mutex_;                 // guards waited_
  std::chrono::milliseconds waited_{0};
};

}  // namespace troupe::tensor::cuda
