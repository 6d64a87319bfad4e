#include "launch/hosts/agent_starter.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "launch/host/child_process.h"
#include "tensor/errors/error.h"

namespace troupe::launch {
namespace {

using Clock = std::chrono::steady_clock;

/// How long commands may go on once the run is over, while their agents end.
constexpr std::chrono::seconds kPatience{5};
constexpr std::size_t kMostWords = 4096;
/// Between two looks for a start that is due, or for the end of a command that has no descriptor.
constexpr int kLookMs = 200;

/// The last line that is not empty.
std::string last_line(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.remove_suffix(1);
  return std::string(text.substr(text.find_last_of('\n') + 1));
}

void close_all(std::initializer_list<int*> descriptors) {
  for (int* fd : descriptors)
    if (const int open = std::exchange(*fd, -1); open >= 0) close(open);
}

}  // namespace

AgentStarter::AgentStarter(std::vector<Command> commands, OnEnd on_end)
    : on_end_(std::move(on_end)), wake_fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (wake_fd_ < 0) throw Error(ErrorKind::unavailable, "cannot start agents: no descriptors left");
  for (Command& command : commands) {
    const bool is_there = command.is_there;
    agents_.push_back({.command = std::move(command), .waits = is_there});
  }
  thread_ = std::thread([this] { loop(); });
}

AgentStarter::~AgentStarter() {
  {
    const std::lock_guard lock(mutex_);
    ends_by_ = Clock::now() + kPatience;
  }
  wake();
  thread_.join();
  close(wake_fd_);
}

void AgentStarter::again(const std::string& host) {
  {
    const std::lock_guard lock(mutex_);
    again_.push_back(host);
  }
  wake();
}

void AgentStarter::wake() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = write(wake_fd_, &one, sizeof one);
}

void AgentStarter::loop() {
  while (true) {
    std::vector<std::string> again;
    std::optional<Clock::time_point> ends_by;
    {
      const std::lock_guard lock(mutex_);
      again.swap(again_);
      ends_by = ends_by_;
    }
    const auto now = Clock::now();
    bool any = false, waits = false;
    for (Running& agent : agents_) {
      const bool is_old = std::ranges::find(again, agent.command.host) != again.end();
      if (is_old) agent.waits = false;
      if (agent.pid > 0 && (is_old || (ends_by && now > *ends_by))) kill(agent.pid, SIGKILL);
      if (ends_by) close_all({&agent.input});
      const bool is_due = agent.pid < 0 && !agent.done && !agent.waits;
      if (is_due && !ends_by && now >= agent.due) start(agent);
      any = any || agent.pid > 0;
      waits = waits || (agent.pid < 0 && is_due) || (agent.pid > 0 && agent.pidfd < 0);
    }
    if (ends_by && !any) return;
    wait(waits || ends_by ? kLookMs : -1);
    for (Running& agent : agents_) {
      if (agent.errors >= 0) read_errors(agent);
      if (agent.pid > 0) reap(agent);
    }
  }
}

/// Waits for an order, for what a command says and for the end of one.
void AgentStarter::wait(int timeout_ms) {
  std::vector<pollfd> fds{{.fd = wake_fd_, .events = POLLIN, .revents = 0}};
  for (const Running& agent : agents_)
    for (const int fd : {agent.pidfd, agent.errors})
      fds.push_back({.fd = fd, .events = POLLIN, .revents = 0});
  poll(fds.data(), fds.size(), timeout_ms);
  std::uint64_t count = 0;
  [[maybe_unused]] const auto got = read(wake_fd_, &count, sizeof count);
}

void AgentStarter::start(Running& agent) {
  agent.due = Clock::now() + agent.command.between;
  agent.said.clear();
  std::array<int, 2> input{-1, -1}, errors{-1, -1};
  int error = pipe2(input.data(), O_CLOEXEC) || pipe2(errors.data(), O_CLOEXEC) ? errno : 0;
  if (error == 0)
    error = start_child(agent.pid, agent.command.words,
                        {.input = input[0], .output = errors[1], .errors = errors[1]});
  close_all({&input[0], &errors[1]});
  if (error != 0) {
    agent.pid = -1;
    close_all({&input[1], &errors[0]});
    on_end_(agent.command.host,
            fmt::format("cannot start {}: {}", agent.command.words.front(), std::strerror(error)));
    return;
  }
  agent.pidfd = static_cast<int>(syscall(SYS_pidfd_open, agent.pid, 0));
  fcntl(errors[0], F_SETFL, O_NONBLOCK);
  agent.input = input[1];
  agent.errors = errors[0];
  // Far smaller than a pipe's buffer, so the write never blocks.
  const std::string& line = agent.command.input;
  [[maybe_unused]] const auto written = write(agent.input, line.data(), line.size());
}

void AgentStarter::read_errors(Running& agent) {
  std::array<char, 1024> part{};
  ssize_t got = 0;
  while ((got = read(agent.errors, part.data(), part.size())) > 0) {
    agent.said.append(part.data(), static_cast<std::size_t>(got));
    if (agent.said.size() > kMostWords) agent.said.erase(0, agent.said.size() - kMostWords);
  }
  if (got == 0) close_all({&agent.errors});
}

void AgentStarter::reap(Running& agent) {
  int status = 0;
  if (waitpid(agent.pid, &status, WNOHANG) != agent.pid) return;
  if (agent.errors >= 0) read_errors(agent);
  agent.pid = -1;
  agent.due = Clock::now() + agent.command.between;
  agent.done = !agent.command.again || (WIFEXITED(status) && WEXITSTATUS(status) == 0);
  close_all({&agent.pidfd, &agent.input, &agent.errors});
  const std::string words = last_line(agent.said);
  agent.waits =
      on_end_(agent.command.host, fmt::format("{} {}{}{}", agent.command.words.front(),
                                              ending_of(status), words.empty() ? "" : ": ", words));
}

}  // namespace troupe::launch
