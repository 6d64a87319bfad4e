#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <variant>

#include "launch/commands/commands.h"
#include "launch/host/failures.h"
#include "tensor/error.h"

namespace {

/// The signals that end a run or have it saved.
constexpr std::array kSignals{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGXCPU};
/// Whether each of them was ignored when the program started, as nohup and background jobs have it.
std::array<bool, kSignals.size()> ignored_at_start{};

/// The kernel's struct sigaction of x86-64 and arm64.
struct KernelAction {
  void (*handler)(int) = nullptr;
  unsigned long flags = 0;
  void (*restorer)() = nullptr;
  unsigned long mask = 0;
};

/// Runs before the constructors of all libraries, some of which set handlers of their own (UCX's
/// for SIGHUP). It calls the kernel itself, because a sanitizer's sigaction() is not ready yet.
__attribute__((no_sanitize("address", "thread", "undefined"))) void look_at_signals() {
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    KernelAction action;
    if (syscall(SYS_rt_sigaction, kSignals[i], nullptr, &action, sizeof action.mask) == 0)
      ignored_at_start[i] = action.handler == SIG_IGN;
  }
}
__attribute__((section(".preinit_array"), used)) void (*const at_start)() = look_at_signals;

/// Gives the signals the meaning that they had when the program started.
void restore_signals() {
  for (std::size_t i = 0; i < kSignals.size(); ++i)
    signal(kSignals[i], ignored_at_start[i] ? SIG_IGN : SIG_DFL);
}

}  // namespace

int main(int argc, char** argv) {
  restore_signals();
  // An exception that nobody can catch, as in a thread of a library, ends the program with its text
  // and an exit code instead of SIGABRT.
  std::set_terminate([] { std::_Exit(troupe::launch::report_failure(std::current_exception())); });
  try {
    const auto options = troupe::launch::parse_options(argc, argv);
    return std::visit([](const auto& chosen) { return troupe::launch::run(chosen); }, options);
  } catch (...) {
    return troupe::launch::report_failure(std::current_exception());
  }
}
