#include "actors/agent/processes.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <utility>

#include "actors/agent/dead_worker.h"
#include "actors/messages/control_plane.h"
#include "tensor/errors/error.h"
#include "tensor/errors/shortage.h"

namespace troupe::actors {
namespace {

/// How often it is looked whether the kernel kills other processes for lack of memory: longer than
/// a worker takes to end that it has killed.
constexpr int kLookMs = 5000;

std::string cause_of(int status) {
  if (WIFEXITED(status)) return "exit code " + std::to_string(WEXITSTATUS(status));
  const int signal = WTERMSIG(status);
  const char* name = sigabbrev_np(signal);
  return "signal " + std::to_string(signal) + " (SIG" + (name ? name : "?") + ")";
}

/// Whether a worker that ended so may have said why: a kill says nothing, and a crash only where.
bool may_tell_why(int status) {
  return WIFEXITED(status) ? WEXITSTATUS(status) != 0 : WTERMSIG(status) == SIGABRT;
}

[[noreturn]] void os_error(const std::string& what) {
  const int code = errno;
  const std::string lacks = shortage(code);
  throw Error(ErrorKind::unavailable,
              "cannot " + what + ": " + (lacks.empty() ? std::strerror(code) : lacks));
}

std::string log_file(const std::string& dir) {
  return dir + "/" + kWorkerLog;
}

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

/// Opens the file for a worker's output: its log, or /dev/null if the log cannot be opened, as on a
/// full disk.
int open_log(const std::string& dir) {
  std::error_code ignored;
  std::filesystem::create_directories(dir, ignored);
  const int flags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC;
  const int fd = open(log_file(dir).c_str(), flags, 0600);
  return fd >= 0 ? fd : open("/dev/null", O_WRONLY | O_CLOEXEC);
}

/// Turns the forked child into a worker. Between fork and exec only async-signal-safe calls are
/// allowed.
[[noreturn]] void become_worker(char* const* argv, int bootstrap_fd, int log_fd, pid_t parent) {
  setpgid(0, 0);  // the terminal's Ctrl-C is for the launcher, which ends its workers in order
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent)
    _exit(static_cast<int>(ErrorKind::retry));  // the launcher died before prctl took effect
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  dup2(bootstrap_fd, STDIN_FILENO);
  dup2(log_fd, STDOUT_FILENO);
  dup2(log_fd, STDERR_FILENO);
  execv(argv[0], argv);
  _exit(127);
}

}  // namespace

LocalProcesses::LocalProcesses(std::vector<std::string> command,
                               std::function<void(const WorkerExited&)> on_exit,
                               ControlGroups groups)
    : command_(std::move(command)),
      on_exit_(std::move(on_exit)),
      groups_(std::move(groups)),
      wake_fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      memory_kills_(groups_.memory_kills()) {
  if (wake_fd_ < 0) os_error("make an event descriptor");
}

LocalProcesses::~LocalProcesses() {
  for (const Child& child : children_) close(child.pidfd);
  close(wake_fd_);
}

/// Notes an order for run(), and wakes it.
template <typename Note>
void LocalProcesses::order(const Note& note) {
  {
    const std::lock_guard lock(mutex_);
    note();
  }
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written =
      write(wake_fd_, &one, sizeof one);  // if the counter is full, run() wakes anyway
}

void LocalProcesses::spawn(const WorkerBootstrap& bootstrap) {
  order([&] { to_spawn_.push_back(bootstrap); });
}

void LocalProcesses::kill(std::uint64_t incarnation) {
  order([&] { kills_.push_back(incarnation); });
}

void LocalProcesses::kill_all() {
  order([&] { kill_all_ = true; });
}

void LocalProcesses::quit() {
  order([&] { quit_ = true; });
}

double LocalProcesses::cpu_seconds(std::uint64_t incarnation) const {
  // The lock ensures that a worker leaves pids_ before its process number can be used again.
  const std::lock_guard lock(mutex_);
  const auto found = pids_.find(incarnation);
  clockid_t clock{};
  timespec used{};
  if (found == pids_.end() || clock_getcpuclockid(found->second, &clock) != 0 ||
      clock_gettime(clock, &used) != 0)
    return 0;
  return static_cast<double>(used.tv_sec) + 1e-9 * static_cast<double>(used.tv_nsec);
}

void LocalProcesses::run() {
  std::vector<pollfd> fds;
  while (true) {
    serve_orders();
    bool quitting = false;
    {
      const std::lock_guard lock(mutex_);
      quitting = quit_;
    }
    if (quitting && children_.empty()) return;
    fds.assign(1, {.fd = wake_fd_, .events = POLLIN, .revents = 0});
    for (const Child& child : children_)
      fds.push_back({.fd = child.pidfd, .events = POLLIN, .revents = 0});
    const int ready = poll(fds.data(), fds.size(), kLookMs);
    if (ready < 0 && errno != EINTR) os_error("wait for worker processes");
    if (ready == 0) memory_kills_.look(groups_.memory_kills());
    std::uint64_t count = 0;
    [[maybe_unused]] const auto drained = read(wake_fd_, &count, sizeof count);
    for (std::size_t i = fds.size() - 1; i >= 1; --i)
      if (fds[i].revents != 0) reap(i - 1);
  }
}

void LocalProcesses::serve_orders() {
  std::vector<WorkerBootstrap> to_spawn;
  std::vector<std::uint64_t> kills;
  bool kill_now = false;
  {
    const std::lock_guard lock(mutex_);
    to_spawn.swap(to_spawn_);
    kills.swap(kills_);
    kill_now = std::exchange(kill_all_, false) || quit_;
  }
  for (const WorkerBootstrap& bootstrap : to_spawn) try {
      start(bootstrap);
    } catch (const Error& error) {  // the host lacks resources for it now
      on_exit_({.incarnation = bootstrap.incarnation,
                .exit_code = static_cast<int>(error.kind()),
                .cause = std::string("a failed start: ") + error.what(),
                .now_s = now_s()});
    }
  for (const Child& child : children_)
    if (kill_now || std::ranges::find(kills, child.incarnation) != kills.end())
      ::kill(child.pid, SIGKILL);
}

void LocalProcesses::start(const WorkerBootstrap& bootstrap) {
  const Descriptor log(open_log(bootstrap.log_dir));
  if (log.get() < 0) os_error("open a worker's log");
  const auto begin = static_cast<std::int64_t>(lseek(log.get(), 0, SEEK_END));
  std::array<int, 2> bootstrap_pipe{};
  if (pipe2(bootstrap_pipe.data(), O_CLOEXEC) < 0) os_error("make a pipe");
  const Descriptor reading_end(bootstrap_pipe[0]), writing_end(bootstrap_pipe[1]);
  // The text is far smaller than a pipe's buffer, so the write never blocks. It comes before the
  // fork, while this process still holds the reading end, so that a worker that ends without
  // reading causes no SIGPIPE here.
  const std::string text = to_text(bootstrap);
  [[maybe_unused]] const auto written = write(bootstrap_pipe[1], text.data(), text.size());
  std::vector<char*> argv;
  for (const std::string& word : command_) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);

  const std::time_t started = std::time(nullptr);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid == 0) become_worker(argv.data(), reading_end.get(), log.get(), parent);
  if (pid < 0) os_error("start a worker process");
  const int pidfd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  if (pidfd < 0) {
    const int code = errno;
    ::kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    errno = code;
    os_error("watch a worker process");
  }
  children_.push_back({.incarnation = bootstrap.incarnation,
                       .pid = pid,
                       .started = started,
                       .pidfd = pidfd,
                       .log = log_file(bootstrap.log_dir),
                       .begin = begin});
  const std::lock_guard lock(mutex_);
  pids_[bootstrap.incarnation] = pid;
}

void LocalProcesses::reap(std::size_t index) {
  const Child child = children_[index];
  int status = 0;
  {
    const std::lock_guard lock(mutex_);
    if (waitpid(child.pid, &status, WNOHANG) != child.pid) return;
    pids_.erase(child.incarnation);
  }
  close(child.pidfd);
  remove_left_segments(child.pid, child.started);
  children_.erase(children_.begin() + static_cast<std::ptrdiff_t>(index));
  std::string cause = cause_of(status) + memory_words(status);
  if (may_tell_why(status))
    if (const std::string words = last_words(child.log, child.begin); !words.empty())
      cause += ": " + words;
  on_exit_({.incarnation = child.incarnation,
            .exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1,
            .cause = std::move(cause),
            .now_s = now_s()});
}

std::string LocalProcesses::memory_words(int status) {
  if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL) return "";
  if (!memory_kills_.take(groups_.memory_kills())) return "";
  std::string words = ", sent by the kernel for lack of memory";
  if (const std::int64_t limit = groups_.memory_limit(); limit != ControlGroups::kNoLimit)
    words += " (the limit of its control group is " + std::to_string(limit >> 20) + " MiB)";
  return words;
}

}  // namespace troupe::actors
