#pragma once

#include <mutex>
#include <utility>
#include <vector>

#include "tensor/device/device.h"
#include "tensor/errors/error.h"

namespace troupe::test {

/// An event whose marks are reached when the test says so, from any thread, and from then on at
/// once; or never, because the device fails.
class ManualEvent final : public tensor::Event {
 public:
  void reach() {
    std::unique_lock lock(mutex_);
    is_reached_ = true;
    const auto calls = std::exchange(calls_, {});
    lock.unlock();
    for (const auto& [call, argument] : calls) call(argument);
  }
  void record(tensor::Stream&) override {}
  void wait(tensor::Stream&) override {}
  void synchronize() override {}
  /// From now on whoever asks is told that the device has failed.
  void fail() {
    const std::lock_guard lock(mutex_);
    has_failed_ = true;
  }
  bool done() const override {
    const std::lock_guard lock(mutex_);
    if (has_failed_) throw Error(ErrorKind::internal, "the device has failed");
    return is_reached_;
  }
  void on_reached(void (*call)(void*), void* argument) override {
    {
      const std::lock_guard lock(mutex_);
      if (!is_reached_) return void(calls_.emplace_back(call, argument));
    }
    call(argument);
  }
  double reached_s() const override { return 0; }

 private:
  mutable std::mutex mutex_;
  bool is_reached_ = false, has_failed_ = false;
  std::vector<std::pair<void (*)(void*), void*>> calls_;
};

}  // namespace troupe::test
