#include "launch/commands/models/rank_processes.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>

#include "actors/agent/dead_worker.h"
#include "launch/host/child_process.h"
#include "tensor/errors/shortage.h"

namespace troupe::launch {
namespace {

/// How long an error that others may have caused waits for theirs.
constexpr std::chrono::milliseconds kGrace{500};
/// How long processes have to end in order.
constexpr std::chrono::milliseconds kEndDeadline{5000};

[[noreturn]] void os_error(const std::string& what, int code) {
  const std::string lacks = shortage(code);
  throw Error(ErrorKind::unavailable,
              fmt::format("cannot {}: {}", what, lacks.empty() ? std::strerror(code) : lacks));
}

}  // namespace

RankProcesses::RankProcesses(const std::vector<int>& ranks) : quit_fd_(eventfd(0, EFD_CLOEXEC)) {
  if (quit_fd_ < 0) os_error("make an event descriptor", errno);
  all_.reserve(ranks.size());
  try {
    for (const int rank : ranks) start(rank);
  } catch (...) {
    for (Child& child : all_) {
      kill(child.pid, SIGKILL);
      reap(child);
    }
    close(quit_fd_);
    throw;
  }
}

RankProcesses::~RankProcesses() {
  stop_watching();
  for (Child& child : all_)
    if (child.pid > 0) kill(child.pid, SIGKILL);
  for (Child& child : all_)
    if (child.pid > 0) reap(child);
  close(quit_fd_);
}

void RankProcesses::start(int rank) {
  auto [own, other] = make_message_sockets();
  const std::time_t now = std::time(nullptr);
  pid_t pid = -1;
  // What it prints beside its errors, which come by the connection, is no part of a result.
  const int error =
      start_child(pid, {"/proc/self/exe", "rank"},
                  {.input = other.fd(), .output = STDERR_FILENO, .errors = STDERR_FILENO});
  if (error != 0) os_error("start a process for a rank", error);
  all_.push_back({.rank = rank, .socket = std::move(own), .pid = pid, .started = now});
}

void RankProcesses::tell_all(const nlohmann::json& order) {
  for (Child& child : all_) child.socket.write(order);
}

nlohmann::json RankProcesses::answer(std::size_t process) {
  Child& child = all_[process];
  auto said = child.socket.read();
  if (!said || said->contains("error")) throw error_of(child, said);
  return *std::move(said);
}

Error RankProcesses::error_of(Child& child, const std::optional<nlohmann::json>& said) {
  if (said && said->contains("error"))
    return {said->at("kind").get<ErrorKind>(),
            fmt::format("rank {}: {}", child.rank, said->at("error").get<std::string>())};
  return {ErrorKind::internal, fmt::format("the process of rank {} {}", child.rank, reap(child))};
}

std::string RankProcesses::reap(Child& child) {
  int status = 0;
  while (waitpid(child.pid, &status, 0) < 0 && errno == EINTR) {
  }
  actors::remove_left_segments(child.pid, child.started);
  child.pid = -1;
  return ending_of(status);
}

void RankProcesses::watch(std::function<void(const std::string&)> on_loss) {
  on_loss_ = std::move(on_loss);
  watcher_ = std::thread([this] { look(); });
}

/// An error for want of a peer waits for the cause, which another process may tell.
void RankProcesses::look() {
  std::vector<pollfd> fds;
  for (const Child& child : all_)
    fds.push_back({.fd = child.socket.fd(), .events = POLLIN, .revents = 0});
  fds.push_back({.fd = quit_fd_, .events = POLLIN, .revents = 0});
  std::optional<Error> found;
  while (!found || found->kind() == ErrorKind::unavailable) {
    const int ready = poll(fds.data(), fds.size(), found ? static_cast<int>(kGrace.count()) : -1);
    if (ready < 0) continue;  // EINTR
    if (ready == 0) break;
    if (fds.back().revents != 0) return;
    for (std::size_t i = 0; i < all_.size(); ++i) {
      if (fds[i].revents == 0) continue;
      fds[i].fd = -1;
      Error error = error_of(all_[i], all_[i].socket.read());
      if (!found || found->kind() == ErrorKind::unavailable) found.emplace(std::move(error));
    }
  }
  {
    const std::lock_guard lock(mutex_);
    loss_ = found;
  }
  changed_.notify_all();
  on_loss_(found->what());
}

std::optional<Error> RankProcesses::loss() {
  if (!watcher_.joinable()) watch([](const std::string&) {});
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, 2 * kGrace, [this] { return loss_.has_value(); });
  return loss_;
}

void RankProcesses::stop_watching() {
  if (!watcher_.joinable()) return;
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(quit_fd_, &one, sizeof one);
  watcher_.join();
}

void RankProcesses::end() {
  stop_watching();
  for (Child& child : all_) child.socket.finish();
  const auto by = std::chrono::steady_clock::now() + kEndDeadline;
  for (Child& child : all_) {
    if (child.pid <= 0) continue;
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        by - std::chrono::steady_clock::now());
    // Its end of the connection closes when it ends.
    pollfd closed{.fd = child.socket.fd(), .events = POLLIN, .revents = 0};
    if (poll(&closed, 1, std::max(0, static_cast<int>(left.count()))) <= 0)
      kill(child.pid, SIGKILL);
    reap(child);
  }
}

}  // namespace troupe::launch
