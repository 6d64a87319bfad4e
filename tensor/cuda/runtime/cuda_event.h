#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <memory>
#include <mutex>

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
///
/// No call but the constructor waits for the GPU. A stream may share its hardware queue with one
/// that computes, and then an event of it comes a whole step late: a new reference serves once the
/// GPU has told the host that it is there, and until then the one before it does.
class DeviceClock {
 public:
  /// A moment known in both clocks.
  struct Reference {
    EventHandle event{true};
    std::atomic<double> host_s{0};  ///< 0: the GPU has not come to it
  };

  /// Makes the first reference, for which it waits. `age_s`: that at which one is renewed; float32
  /// milliseconds keep half a microsecond for 4 seconds.
  explicit DeviceClock(double age_s = 4);

  /// A moment before now.
  std::shared_ptr<const Reference> reference();

 private:
  std::shared_ptr<Reference> begin();

  const double age_s_;
  std::mutex mutex_;  // guards the rest, and is never held for long
  StreamHandle stream_;
  std::shared_ptr<Reference> newest_;  // there is one
  std::shared_ptr<Reference> next_;    // under way, or null
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
