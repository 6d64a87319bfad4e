#pragma once

#include <chrono>
#include <functional>
#include <initializer_list>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

namespace troupe::launch {

/// A descriptor by which a program of one thread can poll() for signals. The signals stay blocked
/// from the construction on.
class SignalFd {
 public:
  explicit SignalFd(std::initializer_list<int> signals);
  SignalFd(const SignalFd&) = delete;
  ~SignalFd();

  int fd() const { return fd_; }
  /// Takes the number of the next signal that has arrived; 0 if none has.
  int take();

 private:
  int fd_ = -1;
};

/// Turns signals into orders. SIGUSR1, SIGUSR2 and SIGXCPU, which batch systems send some time
/// before they end a job, are warnings: the first one becomes an order to save, and any signal
/// after it one to stop. SIGINT, SIGTERM and SIGHUP become an order to stop, and after that SIGINT
/// and SIGTERM one to stop now. A closed terminal may send SIGHUP several times, and the kernel
/// sends SIGXCPU every second, so these and the other warnings never mean more than stop. A process
/// that has not ended kEndDeadline after it was to stop now ends at once, whatever it waits for.
///
/// A signal that the process ignores stays ignored. Construct the watch before any other thread
/// starts, because it blocks the signals in the calling thread and in all threads that start later.
/// Before the first call of orders() a signal ends the process with exit code 75, and a warning is
/// answered with a message.
class SignalWatch {
 public:
  struct Orders {
    std::function<void(const std::string& signal)> save;  ///< "SIGUSR1"
    std::function<void(const std::string& reason)> stop;
    std::function<void(const std::string& reason)> stop_now;
  };
  static constexpr std::chrono::seconds kEndDeadline{10};
  /// Orders that end the process with exit code 75 at once. `when` completes the message "stopped
  /// by SIGINT".
  static Orders ending_process(const std::string& when);
  /// `when` completes the message about a signal that arrives before the first call of orders().
  explicit SignalWatch(const std::string& when = " before the run began");
  SignalWatch(const SignalWatch&) = delete;
  ~SignalWatch();

  /// Replaces the orders that signals become; they are called from the watch's thread. While they
  /// are empty, signals wait for the next call.
  void orders(Orders orders);

 private:
  void loop();
  void on_signal(int signal);
  void obey();
  int patience_ms() const;

  int signal_fd_ = -1;
  int quit_fd_ = -1;
  std::mutex mutex_;  // guards the members below
  Orders orders_;
  bool warned_ = false, stopping_ = false;
  /// What signals say that wait for orders.
  std::string unheard_save_, unheard_stop_, unheard_stop_now_;
  std::optional<std::chrono::steady_clock::time_point> ends_by_;  // used by the thread alone
  std::thread thread_;
};

}  // namespace troupe::launch
