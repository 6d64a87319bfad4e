#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <utility>

namespace troupe::actors {

/// Unbounded queue between handlers (many producers, never blocked) and the runner (one consumer).
/// The only place where CAF's threads and ours meet.
template <typename T>
class OrderQueue {
 public:
  void push(T value) {
    {
      const std::lock_guard lock(mutex_);
      values_.push_back(std::move(value));
    }
    filled_.notify_one();
  }

  std::size_t size() const {
    const std::lock_guard lock(mutex_);
    return values_.size();
  }

  /// Blocks until there is a value.
  T pop() {
    std::unique_lock lock(mutex_);
    filled_.wait(lock, [this] { return !values_.empty(); });
    T value = std::move(values_.front());
    values_.pop_front();
    return value;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable filled_;
  std::deque<T> values_;
};

}  // namespace troupe::actors
