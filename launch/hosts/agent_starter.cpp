#include "launch/hosts/agent_starter.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "tensor/errors/error.h"

namespace troupe::launch {
namespace {

using Clock = std::chrono::steady_clock;

/// Between two starts of one host's agent: ssh itself waits up to ten seconds for a host that is
/// down.
constexpr std::chrono::seconds kBetween{3};
/// How long commands may go on once the run is over, while their agents end.
constexpr std::chrono::seconds kPatience{5};
constexpr std::size_t kMostWords = 4096;

std::string ending_of(int status) {
  if (WIFEXITED(status)) return fmt::format("ended with exit code {}", WEXITSTATUS(status));
  return fmt::format("was ended by SIG{}", sigabbrev_np(WTERMSIG(status)));
}

/// The last line that is not empty.
std::string last_line(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.remove_suffix(1);
  return std::string(text.substr(text.find_last_of('\n') + 1));
}

void close_all(std::initializer_list<int*> descriptors) {
  for (int* fd : descriptors)
    if (const int open = std::exchange(*fd, -1); open >= 0) close(open);
}

/// Starts the words with these as standard input and error; output goes with errors. A session of
/// its own: the terminal's Ctrl-C is for the launcher. Returns 0 or an error number.
int spawn(pid_t& pid, std::vector<std::string> words, int input, int errors) {
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, input, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&files, errors, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&files, errors, STDERR_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t all, none;
  sigfillset(&all);
  sigemptyset(&none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSID);
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const int error = posix_spawnp(&pid, argv.front(), &files, &attributes, argv.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  return error;
}

}  // namespace

AgentStarter::AgentStarter(
    std::vector<Command> commands, bool again,
    std::function<void(const std::string& host, const std::string& cause)> on_end)
    : starts_again_(again),
      on_end_(std::move(on_end)),
      wake_fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (wake_fd_ < 0) throw Error(ErrorKind::unavailable, "cannot start agents: no descriptors left");
  for (Command& command : commands) agents_.push_back({.command = std::move(command)});
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
    std::vector<pollfd> fds{{.fd = wake_fd_, .events = POLLIN, .revents = 0}};
    bool any = false;
    for (Running& agent : agents_) {
      if (std::ranges::find(again, agent.command.host) != again.end() ||
          (ends_by && now > *ends_by))
        if (agent.pid > 0) kill(agent.pid, SIGKILL);
      if (ends_by) close_all({&agent.input});
      if (agent.pid < 0 && !agent.done && !ends_by && now >= agent.due) start(agent);
      any = any || agent.pid > 0;
      fds.push_back({.fd = agent.pidfd, .events = POLLIN, .revents = 0});
      fds.push_back({.fd = agent.errors, .events = POLLIN, .revents = 0});
    }
    if (ends_by && !any) return;
    poll(fds.data(), fds.size(), 200);
    std::uint64_t count = 0;
    [[maybe_unused]] const auto got = read(wake_fd_, &count, sizeof count);
    for (std::size_t i = 0; i < agents_.size(); ++i) {
      if (fds[2 * i + 2].revents != 0) read_errors(agents_[i]);
      if (fds[2 * i + 1].revents != 0) reap(agents_[i]);
    }
  }
}

void AgentStarter::start(Running& agent) {
  agent.due = Clock::now() + kBetween;
  agent.said.clear();
  std::array<int, 2> input{-1, -1}, errors{-1, -1};
  int error = pipe2(input.data(), O_CLOEXEC) || pipe2(errors.data(), O_CLOEXEC) ? errno : 0;
  if (error == 0) error = spawn(agent.pid, agent.command.words, input[0], errors[1]);
  close_all({&input[0], &errors[1]});
  if (error != 0) {
    agent.pid = -1;
    close_all({&input[1], &errors[0]});
    return on_end_(
        agent.command.host,
        fmt::format("cannot start {}: {}", agent.command.words.front(), std::strerror(error)));
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
  const ssize_t got = read(agent.errors, part.data(), part.size());
  if (got == 0) close_all({&agent.errors});
  if (got <= 0) return;
  agent.said.append(part.data(), static_cast<std::size_t>(got));
  if (agent.said.size() > kMostWords) agent.said.erase(0, agent.said.size() - kMostWords);
}

void AgentStarter::reap(Running& agent) {
  int status = 0;
  if (waitpid(agent.pid, &status, WNOHANG) != agent.pid) return;
  if (agent.errors >= 0) read_errors(agent);
  agent.pid = -1;
  agent.done = !starts_again_ || (WIFEXITED(status) && WEXITSTATUS(status) == 0);
  close_all({&agent.pidfd, &agent.input, &agent.errors});
  const std::string words = last_line(agent.said);
  on_end_(agent.command.host, fmt::format("{} {}{}{}", agent.command.words.front(),
                                          ending_of(status), words.empty() ? "" : ": ", words));
}

}  // namespace troupe::launch
