#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

namespace troupe::actors {

/// Unbounded queue from many producers, which are never blocked, to one consumer: from actor
/// handlers to a thread of our own, such as a worker's compute thread. Threads of CAF and of ours
/// meet only here.
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

  /// Removes the first value; blocks until there is one.
  T pop() {
    std::unique_lock lock(mutex_);
    filled_.wait(lock, [this] { return !values_.empty(); });
    T value = std::move(values_.front());
    values_.pop_front();
    return value;
  }

  /// Removes the first value if `wanted` is true of it; blocks until there is one.
  template <typename Wanted>
  std::optional<T> pop_if(Wanted wanted) {
    std::unique_lock lock(mutex_);
    filled_.wait(lock, [this] { return !values_.empty(); });
    if (!wanted(std::as_const(values_.front()))) return std::nullopt;
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
