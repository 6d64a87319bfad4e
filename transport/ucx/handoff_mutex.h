#pragma once

#include <mutex>

namespace troupe::transport {

/// A mutex that a thread in a tight unlock-lock loop cannot keep from others: who waits for it is
/// next.
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
