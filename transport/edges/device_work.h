#pragma once

#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "tensor/device/device.h"

namespace troupe::transport {

class DeviceWork;

/// A copy of a message between a slot and the memory that computes with it. Made once for each slot
/// or buffer; under way once at a time.
struct DeviceCopy {
  enum class Way : std::uint8_t { in, out };  ///< from a slot to the device, or to a slot
  Way way = Way::in;
  tensor::Tensor from, to;
  std::unique_ptr<tensor::Event> done;
  void* owner = nullptr;       ///< the slot or buffer
  DeviceWork* work = nullptr;  ///< that it was given to
};

/// What EdgeChannel asks of a device and must not do itself, because it holds its link's lock: the
/// device may wait for a thread that waits for this lock. A thread of its own calls the device.
/// Copies run on streams of their own, one for each way, beside what is computed, and never wait
/// for another process.
class DeviceWork {
 public:
  class Events {
   public:
    /// The copy is done. Called by a thread of the device.
    virtual void on_copied(DeviceCopy& copy) = 0;
    /// Work has failed: throw_if_failed() throws.
    virtual void on_work_failed() = 0;

   protected:
    ~Events() = default;
  };
  /// Device and events outlive it.
  DeviceWork(tensor::Device& device, Events& events);
  DeviceWork(const DeviceWork&) = delete;
  DeviceWork& operator=(const DeviceWork&) = delete;
  /// Waits for all that it was given.
  ~DeviceWork();

  /// Makes room for so many copies under way, so that none takes memory.
  void reserve(std::size_t copies);
  /// Queues a copy, whose memory stays valid until it is done or the device has failed. What writes
  /// `from` has run. Never blocks.
  void copy(DeviceCopy& copy);
  /// Queues a call, which may wait for anything but this object.
  void call(std::function<void()> call);
  /// Blocks until all that was queued is done, or work has failed. Throws nothing.
  void drain();
  /// Throws what a call or the device has thrown.
  void throw_if_failed();

 private:
  void run();
  void start(DeviceCopy& copy);
  void ask_copies();
  void fail(const std::exception_ptr& failure);
  bool has_work() const { return !calls_.empty() || !queued_.empty(); }
  void tell_if_idle();
  static void on_reached(void* copy);

  tensor::Device& device_;
  Events& events_;
  const std::array<std::unique_ptr<tensor::Stream>, 2> streams_;  // by way
  std::mutex mutex_;                                              // guards the rest
  std::condition_variable more_, idle_;
  std::vector<std::function<void()>> calls_;
  std::vector<DeviceCopy*> queued_;
  std::vector<DeviceCopy*> under_way_;  // that the device has not come to the end of
  std::vector<DeviceCopy*> asked_;      // of the thread alone
  int busy_ = 0;                        // calls of the device or of `events_` that go on
  std::exception_ptr failure_;
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace troupe::transport
