#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace troupe::launch {

/// Starts the agents of other hosts by commands of this host such as ssh, and starts one anew when
/// it has failed, until the end. A thread watches the commands.
class AgentStarter {
 public:
  struct Command {
    std::string host;                ///< empty: of all hosts
    std::vector<std::string> words;  ///< of the command
    std::string input;               ///< what the agent reads: Invitation's line
    bool is_there = false;  ///< an agent of it is there already: one is started when that is lost
    bool again = true;      ///< whether it is started anew
    /// After the end of the host's agent, or of what started it, until another is started: a launch
    /// that ends for it starts none.
    std::chrono::seconds between{3};
  };
  /// Called by the thread when a command has ended, with its last words: "ssh ended with exit code
  /// 255: ...". Returns whether the agent is there none the less, as when ssh alone has ended:
  /// another one is started when that is lost.
  using OnEnd = std::function<bool(const std::string& host, const std::string& cause)>;
  /// Throws Error{unavailable} if the machine has no descriptors left.
  AgentStarter(std::vector<Command> commands, OnEnd on_end);
  AgentStarter(const AgentStarter&) = delete;
  /// Ends commands that still run after kPatience.
  ~AgentStarter();

  /// Starts the agent of a host anew, because the old one is not heard of. May be called from any
  /// thread.
  void again(const std::string& host);

 private:
  struct Running {
    Command command;
    pid_t pid = -1;
    int pidfd = -1, input = -1, errors = -1;
    std::string said;                             ///< on standard error, its end
    std::chrono::steady_clock::time_point due{};  ///< when it is started, if it does not run
    bool done = false;   ///< its agent has left the run in order, and is not started again
    bool waits = false;  ///< for again(): its agent is there without the command
  };
  void loop();
  void wait(int timeout_ms);
  void start(Running& agent);
  void read_errors(Running& agent);
  void reap(Running& agent);
  void wake();

  const OnEnd on_end_;
  std::vector<Running> agents_;  // used by the thread alone
  int wake_fd_ = -1;
  std::mutex mutex_;  // guards the two below
  std::vector<std::string> again_;
  std::optional<std::chrono::steady_clock::time_point> ends_by_;
  std::thread thread_;
};

}  // namespace troupe::launch
