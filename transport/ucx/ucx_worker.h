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

#include "transport/edges/named_wait.h"
#include "transport/memory/file_descriptor.h"
#include "transport/ucx/ucx_environment.h"

namespace troupe::transport {

/// Throws Error{unavailable} "<what>: <UCX's own words>" unless `status` is UCS_OK.
void check_ucx(ucs_status_t status, const std::string& what);

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

/// Work that the progress thread does between messages, a piece at a time.
class BackgroundWork {
 public:
  /// Takes a piece, with the worker's lock held. False if there is none.
  virtual bool begin() = 0;
  /// Does the piece, without the lock.
  virtual void run() = 0;
  /// Ends the piece, with the lock held.
  virtual void end() = 0;

 protected:
  ~BackgroundWork() = default;
};

/// A UCX context and worker, the lock that guards them, and the threads that make them progress.
/// UCX is called by the thread that holds the lock, and all callbacks of UCX run under it.
///
/// Messages have to progress while the compute thread computes, so there is a progress thread. A
/// thread in wait() makes progress itself: it polls for `spin`, then sleeps on the worker's event
/// descriptor, and a message reaches it without a change of threads. The progress thread sleeps on
/// the same descriptor. While another thread polls, it yields: two threads that call UCX in turn
/// would pass the lock, and the worker's cache lines, back and forth for each message.
///
/// UCX signals the descriptor only if the worker is armed, and arming fails while events are
/// left. So no thread may sleep, or give up the lock, before the worker is armed (or another
/// thread polls it): try_arm() in a loop.
class UcxWorker {
 public:
  /// `spin`: how long a waiting thread polls before it sleeps. Throws Error{unavailable}.
  UcxWorker(std::chrono::microseconds spin, const UcxEnvironment& environment);
  ~UcxWorker();
  UcxWorker(const UcxWorker&) = delete;
  UcxWorker& operator=(const UcxWorker&) = delete;

  /// Changes how long a waiting thread polls. The caller holds the lock.
  void set_spin(std::chrono::microseconds spin) { spin_ = spin; }
  /// Whether UCX_TLS allows shared memory, and the system gives it.
  bool shares_memory() const { return shares_memory_; }
  /// The worker, for calls that UCX may have to progress: it must be armed again afterwards.
  ucp_worker_h use() {
    armed_ = false;
    return worker_.get();
  }
  std::string address() const;
  /// Sets the handler of active messages with this id. Called before any peer connects.
  void on_message(unsigned id, ucp_am_recv_callback_t callback, void* argument);

  void lock() { mutex_.lock(); }
  /// Leaves the worker armed, so that the next event wakes a thread.
  void unlock();
  /// Returns with the lock held again: after a notify(), at the deadline, or spuriously.
  void wait(Clock::time_point deadline);
  /// Notes that what some thread waits for may have come. Giving up the lock wakes those threads.
  void notify() { ++sequence_; }
  /// Sets what offer_work() is about; it outlives the worker's threads.
  void set_work(BackgroundWork& work) { work_ = &work; }
  /// Notes that there is a piece of work to do. The progress thread does it, unless a thread that
  /// waits does: such a thread is one between begin_helping() and end_helping().
  void offer_work() { work_offered_ = true; }
  void begin_helping() { ++helpers_; }
  void end_helping() { --helpers_; }
  /// Makes progress until done() is true or `limit` has passed. Returns done().
  template <typename Done>
  bool progress_until(Done done, std::chrono::milliseconds limit) {
    const auto end = Clock::now() + limit;
    while (!done() && Clock::now() < end) progress();
    return done();
  }

  /// Ends the progress thread; from then on only the caller may call UCX.
  void stop();
  /// Destroys UCX's worker, which ends every request by its callback. Called after stop().
  void close() { worker_.reset(); }

 private:
  /// Makes UCX's context and worker, on one of the ports if some are given.
  void open(const UcxEnvironment& environment);
  void open_transports(const UcxEnvironment& environment);
  void run();
  bool progress();
  /// Makes progress once more; true if nothing was left to do, and the next event signals the
  /// descriptor.
  bool try_arm();
  /// If UCX cannot be armed, no event comes: wakes the progress thread, which polls instead.
  void hand_over_if_busy();
  void sleep(std::unique_lock<HandoffMutex>& lock);
  void yield_to_poller(std::unique_lock<HandoffMutex>& lock);
  void watch(std::unique_lock<HandoffMutex>& lock, Clock::time_point deadline);
  /// Whether threads are asleep in wait() and notify() was called since they were woken last.
  bool has_unnotified() const;
  /// Wakes the thread that sleeps on the descriptor. Returns whether others sleep on `changed_`;
  /// the caller wakes those once it has given up the lock, which they need.
  bool notify_watcher();
  /// Does a piece of the work that is left to the progress thread. False if there is none.
  bool do_work(std::unique_lock<HandoffMutex>& lock);
  /// Wakes the progress thread if work is left to it. Called before the lock is given up.
  void hand_over_work();
  void wake_progress_thread();
  void clear_wake_up();
  /// Makes the progress thread yield to a thread that polls. That thread does not arm the worker
  /// after each call, which would cost system calls: the progress thread does, once the polling has
  /// stopped for kYieldMs.
  void request_yield();

  struct DestroyContext {
    void operator()(ucp_context_h context) const { ucp_cleanup(context); }
  };
  struct DestroyWorker {
    void operator()(ucp_worker_h worker) const { ucp_worker_destroy(worker); }
  };

  std::chrono::microseconds spin_;
  bool shares_memory_ = false;  ///< constant after construction
  std::unique_ptr<std::remove_pointer_t<ucp_context_h>, DestroyContext> context_;
  std::unique_ptr<std::remove_pointer_t<ucp_worker_h>, DestroyWorker> worker_;
  int event_fd_ = -1;         ///< UCX's descriptor, owned by its worker
  FileDescriptor wake_fd_;    ///< wakes the progress thread
  FileDescriptor notify_fd_;  ///< wakes the thread that watches

  HandoffMutex mutex_;
  std::condition_variable_any changed_;
  std::uint64_t sequence_ = 0;           ///< notifications so far
  std::uint64_t notified_sequence_ = 0;  ///< notifications that sleepers were woken for
  bool is_watched_ = false;              ///< a thread in wait() sleeps on the event descriptor
  int sleepers_ = 0;                     ///< other threads asleep in wait()
  int busy_rounds_ = 0;                  ///< rounds in which nothing moved and UCX would not arm
  bool cannot_arm_ = false;              ///< armed_ is set although UCX refused
  bool armed_ = false;                   ///< the next event makes event_fd_ readable
  bool is_yielding_ = false;  ///< the progress thread looks in again within kYieldMs, armed or not
  bool yield_requested_ = false;  ///< the progress thread has been woken to yield
  bool is_polled_ = false;        ///< a thread has polled since the progress thread last looked
  BackgroundWork* work_ = nullptr;
  bool work_offered_ = false;
  bool work_handed_over_ = false;  ///< the progress thread has been woken for it
  int helpers_ = 0;                ///< waiting threads that do the work themselves
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace troupe::transport
