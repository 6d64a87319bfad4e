#pragma once

#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace troupe::launch {

/// Turns SIGINT, SIGTERM and SIGHUP into orders: the first one to stop, a later one to stop now. A
/// closed terminal may send SIGHUP several times; it never means more than stop. A signal that was
/// ignored when the process started stays so. Made before any other thread starts, because it
/// blocks the signals in its thread and in all that come after. Before orders() a signal ends the
/// process with exit code 75.
class SignalWatch {
 public:
  struct Orders {
    std::function<void(const std::string& reason)> stop;
    std::function<void(const std::string& reason)> stop_now;
  };
  /// What ends the process with exit code 75 at once; `when` completes "stopped by SIGINT".
  static Orders ending_process(const std::string& when);
  /// `when` is for signals before orders().
  explicit SignalWatch(const std::string& when = " before the run began");
  SignalWatch(const SignalWatch&) = delete;
  ~SignalWatch();

  /// From now on signals become these orders; called from the watch's thread. Empty orders: signals
  /// wait for the next ones.
  void orders(Orders orders);

 private:
  void loop();
  void on_signal(int signal);
  void obey();

  int signal_fd_ = -1;
  int quit_fd_ = -1;
  std::mutex mutex_;  // guards what follows
  Orders orders_;
  bool stopping_ = false;
  std::string unheard_stop_, unheard_stop_now_;  // reasons that wait for orders
  std::thread thread_;
};

}  // namespace troupe::launch
