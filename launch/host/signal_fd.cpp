#include "launch/host/signal_fd.h"

#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "tensor/error.h"

namespace troupe::launch {

SignalFd::SignalFd(std::initializer_list<int> signals) {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : signals) sigaddset(&set, signal);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  fd_ = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  if (fd_ < 0) throw Error(ErrorKind::internal, "cannot make a descriptor for signals");
}

SignalFd::~SignalFd() {
  // The signals stay blocked: one that arrives now must not end the program while it exits.
  close(fd_);
}

int SignalFd::take() {
  signalfd_siginfo info{};
  return read(fd_, &info, sizeof info) == sizeof info ? static_cast<int>(info.ssi_signo) : 0;
}

}  // namespace troupe::launch
