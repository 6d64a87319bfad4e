#pragma once

#include <cstdint>
#include <ctime>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "actors/messages/worker_bootstrap.h"

namespace troupe::actors {

/// How a worker process ended.
struct ProcessExit {
  std::uint64_t incarnation = 0;
  bool clean = false;
  bool by_signal = false;
  double noticed_s = 0;  ///< monotonic clock, when the kernel told of it
  std::string cause;     ///< "exit code 1", "signal 9 (SIGKILL)"
};

/// Where a director's workers live. Orders come from any thread and do not wait; how a worker ended
/// is told to whoever made this.
class Processes {
 public:
  virtual ~Processes() = default;
  virtual void spawn(const WorkerBootstrap& bootstrap) = 0;
  /// SIGKILL. One that is gone already is no error.
  virtual void kill(std::uint64_t incarnation) = 0;
  virtual void kill_all() = 0;
  /// Processor time that a worker has used so far; 0 where it has no process yet, or none any more.
  virtual double cpu_seconds(std::uint64_t incarnation) const = 0;
};

/// Worker processes on this host, whose deaths are noticed at once (pidfd). All are spawned and
/// reaped by the one thread in run(), because the kernel's parent-death signal is tied to the
/// thread that spawned.
class LocalProcesses : public Processes {
 public:
  /// `command` is a worker's command line; the bootstrap text arrives on standard input. Standard
  /// output and error go to bootstrap.log_dir/output.
  LocalProcesses(std::vector<std::string> command, std::function<void(const ProcessExit&)> on_exit);
  ~LocalProcesses() override;
  LocalProcesses(const LocalProcesses&) = delete;

  /// Serves orders and reports exits until quit(); then kills what is left and reaps it. A worker
  /// that cannot be started is reported as one that has ended.
  void run();

  void spawn(const WorkerBootstrap& bootstrap) override;
  void kill(std::uint64_t incarnation) override;
  void kill_all() override;
  double cpu_seconds(std::uint64_t incarnation) const override;
  void quit();

 private:
  struct Child {
    std::uint64_t incarnation = 0;
    int pid = 0;
    std::time_t started = 0;
    int pidfd = -1;
  };
  void wake();
  void serve_orders();
  void start(const WorkerBootstrap& bootstrap);
  void reap(std::size_t index);

  // Constant after construction.
  const std::vector<std::string> command_;
  const std::function<void(const ProcessExit&)> on_exit_;
  int wake_fd_ = -1;

  // Owned by the thread in run().
  std::vector<Child> children_;

  mutable std::mutex mutex_;           // guards the orders, and whom others may ask for
  std::map<std::uint64_t, int> pids_;  // of children_, by incarnation
  std::vector<WorkerBootstrap> to_spawn_;
  std::vector<std::uint64_t> kills_;
  bool kill_all_ = false;
  bool quit_ = false;
};

}  // namespace troupe::actors
