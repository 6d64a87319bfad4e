#include "launch/run/save_hook.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <utility>
#include <vector>

#include "tensor/errors/error.h"

namespace troupe::launch {
namespace {

/// The time that a command has to end by itself after SIGTERM, in seconds.
constexpr double kGrace = 2;

double seconds_now() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

std::string ending_of(int status) {
  if (WIFEXITED(status)) return fmt::format("ended with exit code {}", WEXITSTATUS(status));
  return fmt::format("was ended by SIG{}", sigabbrev_np(WTERMSIG(status)));
}

/// What posix_spawn() needs to know of the command's process.
class Spawning {
 public:
  explicit Spawning(const std::filesystem::path& log) {
    posix_spawn_file_actions_init(&files_);
    posix_spawn_file_actions_addopen(&files_, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    // On a full disk there may be no log; the command still runs.
    const int fd = open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    const bool logs = fd >= 0;
    if (logs) close(fd);
    posix_spawn_file_actions_addopen(&files_, STDOUT_FILENO, logs ? log.c_str() : "/dev/null",
                                     O_WRONLY | O_APPEND, 0);
    posix_spawn_file_actions_adddup2(&files_, STDOUT_FILENO, STDERR_FILENO);
    sigset_t all, none;
    sigfillset(&all);
    sigemptyset(&none);
    posix_spawnattr_init(&attributes_);
    posix_spawnattr_setsigdefault(&attributes_, &all);
    posix_spawnattr_setsigmask(&attributes_, &none);
    // A session of its own: the terminal's Ctrl-C is for the launcher.
    posix_spawnattr_setflags(&attributes_,
                             POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSID);
  }
  Spawning(const Spawning&) = delete;
  ~Spawning() {
    posix_spawn_file_actions_destroy(&files_);
    posix_spawnattr_destroy(&attributes_);
  }
  /// Returns the process, or -1 with errno.
  pid_t start(const std::string& command, std::vector<std::string> environment) const {
    std::array<std::string, 3> words{"/bin/sh", "-c", command};
    std::vector<char*> argv, envp;
    for (std::string& word : words) argv.push_back(word.data());
    for (std::string& word : environment) envp.push_back(word.data());
    argv.push_back(nullptr);
    envp.push_back(nullptr);
    pid_t pid = -1;
    errno = posix_spawn(&pid, "/bin/sh", &files_, &attributes_, argv.data(), envp.data());
    return errno == 0 ? pid : -1;
  }

 private:
  posix_spawn_file_actions_t files_{};
  posix_spawnattr_t attributes_{};
};

/// This process's environment with these variables, each "NAME=value".
std::vector<std::string> environment_with(const std::vector<std::string>& more) {
  std::vector<std::string> all = more;
  for (char** entry = environ; *entry; ++entry) {
    const std::string text = *entry;
    const auto same_name = [&](const std::string& own) {
      return text.starts_with(own.substr(0, own.find('=') + 1));
    };
    if (std::ranges::none_of(more, same_name)) all.push_back(text);
  }
  return all;
}

}  // namespace

SaveHook::SaveHook(Command command, std::function<void(const std::string&)> tell)
    : command_(std::move(command)),
      tell_(std::move(tell)),
      changed_fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (changed_fd_ < 0)
    throw Error(ErrorKind::unavailable, "cannot run checkpoint.on_save: no descriptors left");
  thread_ = std::thread([this] { loop(); });
}

SaveHook::~SaveHook() {
  give_up();
  finish();
  close(changed_fd_);
}

void SaveHook::saved(std::int64_t step, const std::string& path) {
  const std::lock_guard lock(mutex_);
  waiting_.push_back({.step = step, .path = path});
  wake();
}

bool SaveHook::busy() const {
  const std::lock_guard lock(mutex_);
  return running_ || !waiting_.empty();
}

void SaveHook::finish() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    last_moment_s_ = seconds_now() + command_.patience_s;
    wake();
  }
  thread_.join();
}

void SaveHook::give_up() {
  const std::lock_guard lock(mutex_);
  given_up_ = true;
  wake();
}

void SaveHook::wake() {
  eventfd_write(changed_fd_, 1);
}

/// Waits for a change or for the end of a process, -1 for none, but at most so many seconds.
void SaveHook::wait(int pidfd, double seconds) const {
  std::array<pollfd, 2> ready{{{.fd = changed_fd_, .events = POLLIN, .revents = 0},
                               {.fd = pidfd, .events = POLLIN, .revents = 0}}};
  const double ms = std::clamp(std::ceil(1000 * seconds), 0.0, 1e9);
  poll(ready.data(), ready.size(), static_cast<int>(ms));
  eventfd_t count = 0;
  eventfd_read(changed_fd_, &count);
}

void SaveHook::loop() {
  for (Order order; next(order);) {
    std::error_code ignored;
    if (std::filesystem::exists(order.path, ignored))
      run(order);
    else
      tell_(fmt::format("checkpoint.on_save is late: step-{} is removed already", order.step));
    const std::lock_guard lock(mutex_);
    running_ = false;
  }
}

/// Waits for an order and takes it; false if there will be none any more.
bool SaveHook::next(Order& order) {
  while (true) {
    {
      const std::lock_guard lock(mutex_);
      const bool late = ending_ && seconds_now() >= last_moment_s_;
      if (given_up_ || late) {
        if (!waiting_.empty())
          tell_(fmt::format("checkpoint.on_save was not run for {} of the checkpoints",
                            waiting_.size()));
        waiting_.clear();
        return false;
      }
      if (!waiting_.empty()) {
        order = waiting_.front();
        waiting_.pop_front();
        running_ = true;
        return true;
      }
      if (ending_) return false;
    }
    wait(-1, 1e6);
  }
}

void SaveHook::run(const Order& order) {
  const auto environment =
      environment_with({"TROUPE_CHECKPOINT=" + order.path,
                        "TROUPE_STEP=" + std::to_string(order.step), "TROUPE_RUN=" + command_.run});
  const pid_t pid = Spawning(command_.log).start(command_.text, environment);
  const std::string wrong =
      pid < 0 ? fmt::format("could not be started: {}", strerror(errno)) : wait_for(pid);
  if (!wrong.empty())
    tell_(fmt::format("checkpoint.on_save of step-{} {}; its output is in {}", order.step, wrong,
                      command_.log.string()));
}

/// Waits for the end of a command, and ends it when its time is over. Returns what went wrong;
/// empty if the command succeeded.
std::string SaveHook::wait_for(int pid) {
  const int pidfd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  const double begin = seconds_now();
  double killed = 0;  // when SIGTERM was sent; 0: not yet
  bool cut = false;   // whether it was given up before its time
  int status = 0;
  while (waitpid(pid, &status, WNOHANG) == 0) {
    const double now = seconds_now();
    double left = begin + command_.patience_s - now;
    {
      const std::lock_guard lock(mutex_);
      if (ending_) left = std::min(left, last_moment_s_ - now);
      if (given_up_) left = 0;
    }
    if (killed == 0 && left <= 0) {
      killed = now;
      cut = now < begin + command_.patience_s;
      kill(-pid, SIGTERM);
    } else if (killed > 0 && now >= killed + kGrace) {
      kill(-pid, SIGKILL);
    }
    if (killed > 0) left = std::max(killed + kGrace - now, 0.05);
    // Without a descriptor of the process (none is left) it is asked for now and then.
    wait(pidfd, pidfd >= 0 ? left : std::min(left, 0.1));
  }
  if (pidfd >= 0) close(pidfd);
  if (killed == 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0) return "";
  if (killed == 0) return ending_of(status);
  kill(-pid, SIGKILL);  // what it has left in its session
  return cut ? "was ended with the run"
             : fmt::format("took longer than {:g} s (checkpoint.on_save_timeout) and was ended",
                           command_.patience_s);
}

}  // namespace troupe::launch
