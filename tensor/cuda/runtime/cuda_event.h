#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <mutex>
#include <vector>

#include "tensor/cuda/runtime/cuda_stream.h"
#include "tensor/device/device.h"

namespace troupe::tensor::cuda {

/// An event of CUDA.
class EventHandle {
 public:
  /// Without `timed` it takes no time stamp, which makes it cheaper. A wait of the host for it
  /// sleeps, or spins, which ends it some microseconds sooner.
  explicit EventHandle(bool timed, bool sleeps = true);
  EventHandle(const EventHandle&) = delete;
  EventHandle& operator=(const EventHandle&) = delete;
  ~EventHandle();

  cudaEvent_t get() const { return handle_; }

 private:
  cudaEvent_t handle_ = nullptr;
};

/// Relates the time stamps of a GPU to the steady clock of the host. CUDA only tells the
/// milliseconds between two events, as a float32; so a reference is renewed before it loses
/// microseconds. Any thread may call.
class DeviceClock {
 public:
  /// A moment known in both clocks.
  struct Reference {
    EventHandle event{true, false};
    double host_s = 0;
  };

  /// A reference before now, at most a few seconds ago. Each few seconds one call waits for the GPU
  /// to stamp an event of an idle stream, some microseconds.
  std::shared_ptr<const Reference> reference();

 private:
  void renew();

  std::mutex mutex_;
  StreamHandle stream_;
  std::vector<std::shared_ptr<Reference>> references_;  // the newest is the last; others are reused
};

class CudaEvent final : public Event {
 public:
  /// An event of GPU `device`. `clock` is null for one that keeps no time.
  CudaEvent(int device, DeviceClock* clock);

  void record(Stream& stream) override;
  void wait(Stream& stream) override;
  void synchronize() override;
  bool done() const override;
  void on_reached(void (*call)(void*), void* argument) override;
  double reached_s() const override;

 private:
  const int device_;
  DeviceClock* const clock_;
  const EventHandle handle_;
  std::shared_ptr<StreamHandle> host_calls_;  // of the marked stream; null before the first mark
  std::shared_ptr<const DeviceClock::Reference> reference_;  // before the mark
};

}  // namespace troupe::tensor::cuda
