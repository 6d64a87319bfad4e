#include "tests/gpu/first_questions/child.h"

#include <signal.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>

namespace troupe::test {

Line::~Line() {
  close(fd_);
}

void Line::send_bytes(const void* data, std::size_t bytes) {
  if (::send(fd_, data, bytes, MSG_NOSIGNAL) != static_cast<ssize_t>(bytes))
    throw std::runtime_error("the other process is gone");
}

void Line::receive_bytes(void* data, std::size_t bytes) {
  const ssize_t got = recv(fd_, data, bytes, MSG_WAITALL);
  if (got == static_cast<ssize_t>(bytes)) return;
  throw std::runtime_error(got < 0 && errno == EAGAIN ? "the other process says nothing"
                                                      : "the other process has ended");
}

Child::Child(const std::function<void(Line&)>& body) {
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()) != 0)
    throw std::runtime_error("cannot make a socket");
  const timeval limit{.tv_sec = 60, .tv_usec = 0};
  for (const int end : ends) setsockopt(end, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  std::fflush(stdout);
  pid_ = fork();
  if (pid_ < 0) throw std::runtime_error("cannot fork");
  if (pid_ == 0) {
    close(ends[0]);
    Line parent(ends[1]);
    int code = EXIT_SUCCESS;
    try {
      body(parent);
    } catch (const std::exception& error) {
      std::printf("    a process ended: %s\n", error.what());
      code = EXIT_FAILURE;
    }
    std::fflush(stdout);
    _exit(code);
  }
  close(ends[1]);
  line_ = std::make_unique<Line>(ends[0]);
}

Child::~Child() {
  if (pid_ > 0) {
    kill();
    wait();
  }
}

void Child::kill() {
  ::kill(pid_, SIGKILL);
}

int Child::wait() {
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace troupe::test
