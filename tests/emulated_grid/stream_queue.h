#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

namespace troupe::emulated_grid {

/// What a stream was given and has not run yet. Work runs in the call that gives it, unless work
/// that may wait for others lies before it: from there on all runs in order on a thread of the
/// queue's own, and calls return at once, as a GPU's do. Work is given by one thread at a time.
class StreamQueue {
 public:
  using Work = std::function<void()>;

  StreamQueue() = default;
  StreamQueue(const StreamQueue&) = delete;
  StreamQueue& operator=(const StreamQueue&) = delete;
  /// Returns once all has run.
  ~StreamQueue();

  /// Runs `work` behind all that was given before. Throws what it throws, if it runs at once.
  void run(Work work);
  /// Runs, behind the same, work that may block until another stream or process goes on.
  void run_apart(Work work);
  /// Blocks until all has run. Throws the first exception of what ran on the queue's thread.
  void drain();

 private:
  void push(Work work);
  void loop();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Work> waiting_;  ///< the first is what runs
  std::exception_ptr fault_;
  bool is_ending_ = false;
  std::thread thread_;  ///< from the first work apart on
};

}  // namespace troupe::emulated_grid
