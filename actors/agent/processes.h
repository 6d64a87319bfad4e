#pragma once

#include <cstdint>
#include <ctime>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "actors/agent/control_groups.h"
#include "actors/messages/worker_bootstrap.h"
#include "actors/protocol/protocol_events.h"
#include "actors/topology/reports/clock_ahead.h"

namespace troupe::actors {

/// The file of a worker's output in its log folder.
inline constexpr const char* kWorkerLog = "output";

/// The worker processes of a director. Functions may be called from any thread and do not wait. How
/// a worker ended is reported to the creator of the object.
class Processes {
 public:
  virtual ~Processes() = default;
  virtual void spawn(const WorkerBootstrap& bootstrap) = 0;
  /// Sends SIGKILL to a worker. It is no error if the worker is already gone.
  virtual void kill(std::uint64_t incarnation) = 0;
  virtual void kill_all() = 0;
  /// The processor time that a worker has used so far; 0 if it has no process yet, or none any
  /// more.
  virtual double cpu_seconds(std::uint64_t incarnation) const = 0;
  /// Whether the host of a worker gives signs of life, so that silence is the worker's own.
  virtual bool hears_host_of(std::uint64_t) const { return true; }
  /// How far the monotonic clock of a worker's host is ahead of this host's; none if that is not
  /// known, or there is no other host.
  virtual std::optional<ClockAhead> clock_of(std::uint64_t) const { return std::nullopt; }
  /// Tells that no more workers are wanted on another host: its agent ends when its last one has.
  virtual void let_go(const std::string&) {}
};

/// Worker processes on this host, whose deaths are noticed at once through pidfds. The thread in
/// run() spawns and reaps all of them, because the kernel's parent-death signal is tied to the
/// spawning thread.
class LocalProcesses : public Processes {
 public:
  /// `command` is a worker's command line; the bootstrap text arrives on its standard input.
  /// Standard output and error go to kWorkerLog in bootstrap.log_dir. `on_exit` is called by the
  /// thread in run(). `groups` are those of this process, and so of its workers.
  LocalProcesses(std::vector<std::string> command, std::function<void(const WorkerExited&)> on_exit,
                 ControlGroups groups = ControlGroups());
  ~LocalProcesses() override;
  LocalProcesses(const LocalProcesses&) = delete;

  /// Carries out orders and reports exits until quit(); then kills and reaps the workers that are
  /// left. A worker that cannot be started is reported as one that has ended.
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
    std::string log;         ///< file of its output
    std::int64_t begin = 0;  ///< where its output begins there
  };
  template <typename Note>
  void order(const Note& note);
  void serve_orders();
  void start(const WorkerBootstrap& bootstrap);
  void reap(std::size_t index);
  std::string memory_words(int status);

  // Constant after construction.
  const std::vector<std::string> command_;
  const std::function<void(const WorkerExited&)> on_exit_;
  const ControlGroups groups_;
  int wake_fd_ = -1;

  // Owned by the thread in run().
  std::vector<Child> children_;
  MemoryKills memory_kills_;

  mutable std::mutex mutex_;           // guards the members below
  std::map<std::uint64_t, int> pids_;  // process numbers of children_, by incarnation
  std::vector<WorkerBootstrap> to_spawn_;
  std::vector<std::uint64_t> kills_;
  bool kill_all_ = false;
  bool quit_ = false;
};

}  // namespace troupe::actors
