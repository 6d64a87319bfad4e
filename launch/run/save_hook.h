#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace troupe::launch {

/// Runs a user's command for each checkpoint that is complete, one at a time, in a thread of its
/// own: a command that fails, hangs or cannot be started is told about, and the run goes on.
class SaveHook {
 public:
  struct Command {
    std::string text;  ///< for /bin/sh
    double patience_s = 0;
    std::filesystem::path log;  ///< file to which its output is appended
    std::string run;            ///< directory of the run
  };
  /// `tell` is called from the hook's thread with a line for people about what went wrong.
  SaveHook(Command command, std::function<void(const std::string&)> tell);
  /// give_up(), then finish().
  ~SaveHook();
  SaveHook(const SaveHook&) = delete;

  /// Orders the command for a checkpoint. It finds TROUPE_CHECKPOINT (the checkpoint's directory),
  /// TROUPE_STEP and TROUPE_RUN in its environment, in a session of its own, with an empty standard
  /// input. A checkpoint that is gone by then is passed over. Callable from any thread; never
  /// blocks.
  void saved(std::int64_t step, const std::string& path);
  /// Whether a command is running or waits. Callable from any thread.
  bool busy() const;
  /// Returns when all commands have ended: those that are running or wait now have the patience of
  /// one together, and are ended then. No more may be ordered.
  void finish();
  /// Ends the command that is running, and all that wait. Callable from any thread.
  void give_up();

 private:
  struct Order {
    std::int64_t step = 0;
    std::string path;
  };
  void loop();
  bool next(Order& order);
  void run(const Order& order);
  std::string wait_for(int pid);
  void wake();
  void wait(int pidfd, double seconds) const;

  const Command command_;
  const std::function<void(const std::string&)> tell_;
  int changed_fd_ = -1;       ///< becomes readable with every change of what follows
  mutable std::mutex mutex_;  // guards the members below
  std::deque<Order> waiting_;
  bool running_ = false;
  bool ending_ = false, given_up_ = false;
  double last_moment_s_ = 0;  ///< when all must have ended, on the steady clock, once ending_
  std::thread thread_;
};

}  // namespace troupe::launch
