#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>

namespace troupe::host_cudart {

/// Something that a stream was given.
struct Work {
  std::string what;               ///< for texts
  std::function<bool()> may_run;  ///< whether it may begin, or, of a kernel, has ended
  std::function<void()> run;      ///< runs without the machine's lock
  std::shared_ptr<int> pending;   ///< of its stream, which may be gone: works that have not ended
};

/// Work of streams that share a queue of the GPU, in the order in which it was given. Guarded by
/// the machine's lock.
class HardwareQueue {
 public:
  void push(Work work);
  bool is_idle() const { return works_.empty(); }
  /// The work that all later work waits for; null if there is none.
  const Work* first() const { return works_.empty() ? nullptr : &works_.front(); }
  /// Whether something can be run now: nobody runs any, and the first may.
  bool can_run() const { return !is_running_ && !works_.empty() && works_.front().may_run(); }
  /// Begins the first work; returns what is to be called without the lock, and end() then.
  std::function<void()> begin();
  void end();

 private:
  std::deque<Work> works_;
  bool is_running_ = false;
};

}  // namespace troupe::host_cudart
