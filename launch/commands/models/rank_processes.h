#pragma once

#include <sys/types.h>

#include <condition_variable>
#include <ctime>
#include <functional>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <vector>

#include "launch/host/message_socket.h"
#include "tensor/errors/error.h"

namespace troupe::launch {

/// The processes `troupe rank` that a command starts beside its own, each at the other end of a
/// connection. They end with this process. Used by one thread.
class RankProcesses {
 public:
  /// Ranks as texts name them. Throws Error{unavailable} if one cannot be started.
  explicit RankProcesses(const std::vector<int>& ranks);
  /// Kills what is left.
  ~RankProcesses();
  RankProcesses(const RankProcesses&) = delete;

  std::size_t size() const { return all_.size(); }
  void tell(std::size_t process, const nlohmann::json& order) { all_[process].socket.write(order); }
  void tell_all(const nlohmann::json& order);
  /// The next value of a process. Throws its error, or that it has ended. Only before watch().
  nlohmann::json answer(std::size_t process);

  /// From now on a thread looks at all of them. When one has an error or ends, it calls
  /// on_loss(why), once.
  void watch(std::function<void(const std::string& why)> on_loss);
  /// Why the others cannot go on, if that is so: waits for a moment, because what fails here for
  /// want of another may be noticed first. Watches them if nothing does yet.
  std::optional<Error> loss();
  /// Has them end in order, and waits for that, for some seconds at most.
  void end();

 private:
  struct Child {
    int rank = 0;
    MessageSocket socket;
    pid_t pid = -1;
    std::time_t started = 0;
  };
  void start(int rank);
  /// What a value that is no answer means: an error, or the end.
  Error error_of(Child& child, const std::optional<nlohmann::json>& said);
  /// Returns how the process ended.
  std::string reap(Child& child);
  void look();
  void stop_watching();

  std::vector<Child> all_;
  int quit_fd_ = -1;
  std::function<void(const std::string&)> on_loss_;
  std::mutex mutex_;  // guards loss_
  std::condition_variable changed_;
  std::optional<Error> loss_;
  std::thread watcher_;
};

}  // namespace troupe::launch
