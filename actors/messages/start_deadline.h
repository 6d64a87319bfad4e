#pragma once

#include <signal.h>

#include <array>

namespace troupe::actors {

/// While it lives, a process that hangs, aborts or crashes ends with exit code 69 and a message.
/// CAF does all three if a thread cannot be started in the constructor of its actor system:
/// destructors of what was made before wait for ever for threads that never ran. One at a time, in
/// the thread that constructs the actor system.
class StartDeadline {
 public:
  StartDeadline();
  ~StartDeadline();
  StartDeadline(const StartDeadline&) = delete;

 private:
  static constexpr std::array kSignals{SIGALRM, SIGABRT, SIGSEGV};
  std::array<struct sigaction, kSignals.size()> before_{};
};

}  // namespace troupe::actors
