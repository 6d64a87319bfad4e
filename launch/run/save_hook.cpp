#include "launch/run/save_hook.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
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

#include "launch/host/child_process.h"
#include "tensor/errors/error.h"

namespace troupe::launch {
namespace {

/// The time that a command has to end by itself after SIGTERM, in seconds.
constexpr double kGrace = 2;

double seconds_now() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

/// Opens a file, or /dev/null if that fails, as on a full disk: the command still runs.
int open_or_null(const std::filesystem::path& file) {
  const int fd = open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  return fd >= 0 ? fd : open("/dev/null", O_WRONLY | O_CLOEXEC);
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
  const int input = open("/dev/null", O_RDONLY | O_CLOEXEC), log = open_or_null(command_.log);
  pid_t pid = -1;
  const int error = start_child(
      pid, {"/bin/sh", "-c", command_.text}, {.input = input, .output = log, .errors = log},
      {"TROUPE_CHECKPOINT=" + order.path, "TROUPE_STEP=" + std::to_string(order.step),
       "TROUPE_RUN=" + command_.run});
  for (const int fd : {input, log})
    if (fd >= 0) close(fd);
  const std::string wrong =
      error != 0 ? fmt::format("could not be started: {}", strerror(error)) : wait_for(pid);
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
