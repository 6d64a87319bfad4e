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

/// Starts the agents of other hosts by commands of this host such as ssh, and if asked to starts
/// one anew when it has failed, until the end. A thread watches the commands.
class AgentStarter {
 public:
  struct Command {
    std::string host;                ///< empty: of all hosts
    std::vector<std::string> words;  ///< of the command
    std::string input;               ///< what the agent reads: Invitation's line
    bool is_there = false;  ///< an agent of it is there already: one is started when that is lost
  };
  /// `on_end` is told when a command has ended, with its last words: "ssh ended with exit code 255:
  /// ...". Throws Error{unavailable} if the machine has no descriptors left.
  AgentStarter(std::vector<Command> commands, bool again,
               std::function<void(const std::string& host, const std::string& cause)> on_end);
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
    bool waits = false;  ///< for again(): Command::is_there
  };
  void loop();
  void wait(int timeout_ms);
  void start(Running& agent);
  void read_errors(Running& agent);
  void reap(Running& agent);
  void wake();

  const bool starts_again_;
  const std::function<void(const std::string&, const std::string&)> on_end_;
  std::vector<Running> agents_;  // used by the thread alone
  int wake_fd_ = -1;
  std::mutex mutex_;  // guards the two below
  std::vector<std::string> again_;
  std::optional<std::chrono::steady_clock::time_point> ends_by_;
  std::thread thread_;
};

}  // namespace troupe::launch
