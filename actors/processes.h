#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "actors/cluster.h"

namespace troupe::actors {

/// How a worker process ended.
struct ProcessExit {
  std::uint64_t incarnation = 0;
  bool clean = false;
  bool by_signal = false;
  double noticed_s = 0;  ///< monotonic clock, when the kernel told of it
  std::string cause;     ///< "exit code 1", "signal 9 (SIGKILL)"
};

/// Starts worker processes and notices their deaths at once (pidfd). All processes are spawned and
/// reaped by the one thread in run(), because the kernel's parent-death signal is tied to the
/// thread that spawned. Orders may come from any thread.
class Processes {
 public:
  /// `command` is a worker's command line; its birth arrives on standard input. Standard output and
  /// error go to birth.log_dir/output.
  Processes(std::vector<std::string> command, std::function<void(const ProcessExit&)> on_exit);
  ~Processes();
  Processes(const Processes&) = delete;

  /// Serves orders and reports exits until quit(); then kills what is left and reaps it.
  void run();

  void spawn(const WorkerBirth& birth);
  /// SIGKILL. One that is gone already is no error.
  void kill(std::uint64_t incarnation);
  void kill_all();
  void quit();

 private:
  struct Child {
    std::uint64_t incarnation = 0;
    int pid = 0;
    int pidfd = -1;
  };
  void wake();
  void serve_orders();
  void start(const WorkerBirth& birth);
  void reap(std::size_t index);

  // Constant after construction.
  const std::vector<std::string> command_;
  const std::function<void(const ProcessExit&)> on_exit_;
  int wake_fd_ = -1;

  // Owned by the thread in run().
  std::vector<Child> children_;

  std::mutex mutex_;  // guards the orders
  std::vector<WorkerBirth> births_;
  std::vector<std::uint64_t> kills_;
  bool kill_all_ = false;
  bool quit_ = false;
};

}  // namespace troupe::actors
