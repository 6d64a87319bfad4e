#pragma once

#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace troupe::launch {

/// Turns SIGINT, SIGTERM and SIGHUP into orders: the first signal into one to stop, a later one
/// into one to stop now. A closed terminal may send SIGHUP several times, so SIGHUP never means
/// more than stop. A signal that was ignored when the process started stays ignored. Construct it
/// before any other thread starts, because it blocks the signals in the calling thread and in all
/// threads that start later. Before the first call of orders() a signal ends the process with exit
/// code 75.
class SignalWatch {
 public:
  struct Orders {
    std::function<void(const std::string& reason)> stop;
    std::function<void(const std::string& reason)> stop_now;
  };
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

  int signal_fd_ = -1;
  int quit_fd_ = -1;
  std::mutex mutex_;  // guards the members below
  Orders orders_;
  bool stopping_ = false;
  std::string unheard_stop_, unheard_stop_now_;  // reasons of signals that wait for orders
  std::thread thread_;
};

}  // namespace troupe::launch
