#pragma once

#include <mutex>

namespace troupe::transport {

/// A mutex that a thread in a tight unlock-lock loop cannot keep from others. A waiting thread
/// holds `next_`, so the loop's next lock() queues behind it.
class HandoffMutex {
 public:
  void lock() {
    const std::lock_guard turn(next_);
    held_.lock();
  }
  void unlock() { held_.unlock(); }

 private:
  std::mutex next_;
  std::mutex held_;
};

}  // namespace troupe::transport
