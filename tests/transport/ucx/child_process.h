#pragma once

#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

namespace troupe::test {

/// A socket that carries whole messages between this process and another one of the test.
class TestSocket {
 public:
  explicit TestSocket(int fd) : fd_(fd) {}
  void send(const std::string& text) const {
    if (::send(fd_, text.data(), text.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(text.size()))
      throw std::runtime_error("the other process is gone");
  }
  std::string receive() const {
    std::string text(8192, '\0');
    const ssize_t got = ::recv(fd_, text.data(), text.size(), 0);
    if (got <= 0) throw std::runtime_error("the other process is gone");
    text.resize(static_cast<std::size_t>(got));
    return text;
  }

 private:
  int fd_;
};

/// This test program again, running the one test case `name`, as suite/case (which is disabled
/// otherwise), with a socket to this process. The child is killed by the destructor, and when the
/// thread that made it ends.
class ChildProcess {
 public:
  static constexpr const char* kSocket = "TROUPE_TEST_SOCKET";

  explicit ChildProcess(const std::string& name) {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
      throw std::runtime_error("no socket pair");
    const std::string selection = "--run_test=" + name;
    pid_ = ::fork();
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      const int inherited = ::dup(ends[1]);
      ::setenv(kSocket, std::to_string(inherited).c_str(), 1);
      ::execl("/proc/self/exe", "child", selection.c_str(), "--log_level=nothing",
              "--report_level=no", nullptr);
      ::_exit(127);
    }
    ::close(ends[1]);
    fd_ = ends[0];
  }
  ~ChildProcess() {
    kill();
    ::close(fd_);
  }
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  TestSocket socket() const { return TestSocket(fd_); }
  pid_t pid() const { return pid_; }
  void signal(int number) const { ::kill(pid_, number); }
  void kill() {
    if (is_reaped_) return;
    signal(SIGKILL);
    wait();
  }
  /// Waits for the child. Returns its exit code, or -1 if a signal ended it.
  int wait() {
    int status = 0;
    ::waitpid(pid_, &status, 0);
    is_reaped_ = true;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  /// In the child: the socket to its parent.
  static TestSocket parent() { return TestSocket(std::atoi(std::getenv(kSocket))); }

 private:
  pid_t pid_ = 0;
  int fd_ = -1;
  bool is_reaped_ = false;
};

}  // namespace troupe::test
