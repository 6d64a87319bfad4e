#pragma once

#include <ucp/api/ucp.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <type_traits>

#include "transport/named_wait.h"
#include "transport/ucx/fair_mutex.h"

namespace troupe::transport {

/// An open file descriptor.
class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) : fd_(fd) {}
  ~FileDescriptor();
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

/// A UCX context and worker, the lock that guards them, and the threads that make them progress.
/// UCX is called by whoever holds the lock, and all callbacks of UCX run under it. A thread in
/// wait() makes progress itself while it polls: a message then reaches it without a change of
/// threads. When nobody polls, the progress thread sleeps on the worker's event descriptor.
class UcxWorker {
 public:
  /// `spin`: how long a waiting thread polls before it sleeps. Throws Error{unavailable}.
  explicit UcxWorker(std::chrono::microseconds spin);
  ~UcxWorker();
  UcxWorker(const UcxWorker&) = delete;
  UcxWorker& operator=(const UcxWorker&) = delete;

  /// UCX_TLS leaves room for shared memory.
  bool shares_memory() const { return shares_memory_; }
  /// For calls that UCX may have to progress.
  ucp_worker_h use() {
    armed_ = false;
    return worker_.get();
  }
  std::string address() const;
  /// Before any peer connects.
  void on_message(unsigned id, ucp_am_recv_callback_t callback, void* argument);

  void lock() { mutex_.lock(); }
  /// Sees to it that the next event wakes a thread.
  void unlock();
  /// Returns, the lock held again, after a notify(), at the deadline, or for no reason.
  void wait(Clock::time_point deadline);
  /// What some thread waits for may have come.
  void notify() { ++news_; }
  /// Makes progress until done() or for that long; the result is done()'s.
  template <typename Done>
  bool progress_until(Done done, std::chrono::milliseconds limit) {
    const auto end = Clock::now() + limit;
    while (!done() && Clock::now() < end) progress();
    return done();
  }

  /// Ends the progress thread; UCX is the caller's alone from then on.
  void stop();
  /// After stop(): ends UCX's worker, and with it every request, by its callback.
  void close() { worker_.reset(); }

 private:
  void run();
  bool progress();
  /// True once nothing is left to do and the next event wakes the progress thread.
  bool rest();
  /// The progress thread may be asleep until an event that never comes: it shall look in instead.
  void hand_over_if_busy();
  void sleep(std::unique_lock<FairMutex>& lock);
  void stand_aside(std::unique_lock<FairMutex>& lock);
  bool has_news_for_sleepers() const;
  void wake_progress_thread();
  void clear_wake_up();
  /// Instead of resting after each call of a thread that polls again and again: the progress thread
  /// looks after the worker once that thread has been away for a moment.
  void call_aside();

  struct DestroyContext {
    void operator()(ucp_context_h context) const { ucp_cleanup(context); }
  };
  struct DestroyWorker {
    void operator()(ucp_worker_h worker) const { ucp_worker_destroy(worker); }
  };

  const std::chrono::microseconds spin_;
  const bool shares_memory_;
  std::unique_ptr<std::remove_pointer_t<ucp_context_h>, DestroyContext> context_;
  std::unique_ptr<std::remove_pointer_t<ucp_worker_h>, DestroyWorker> worker_;
  int event_fd_ = -1;  ///< UCX's own
  FileDescriptor wake_fd_;

  FairMutex mutex_;
  std::condition_variable_any changed_;
  std::uint64_t news_ = 0;       ///< notifications so far
  std::uint64_t told_ = 0;       ///< notifications that sleepers were woken for
  int sleepers_ = 0;             ///< threads asleep in wait()
  int busy_rounds_ = 0;          ///< in which nothing moved and UCX would not arm
  bool cannot_arm_ = false;      ///< armed_ is a pretence
  bool armed_ = false;           ///< the next event makes event_fd_ readable
  bool standing_aside_ = false;  ///< the progress thread looks in again soon, armed or not
  bool is_called_ = false;       ///< the progress thread has been woken to stand aside
  bool is_polled_ = false;       ///< a thread has polled since the progress thread last looked
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace troupe::transport
