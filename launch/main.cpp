#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <variant>

#include "launch/commands/options.h"
#include "tensor/errors/error.h"
#include "tensor/errors/shortage.h"

namespace {

using troupe::Error;
using troupe::ErrorKind;

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

/// What keeps this process from starting a thread now; empty: nothing.
std::string thread_shortage() {
  pthread_t thread{};
  const int code = pthread_create(
      &thread, nullptr, [](void*) -> void* { return nullptr; }, nullptr);
  if (code != 0) return troupe::shortage(code);
  pthread_join(thread, nullptr);
  return "";
}

Error error_of(const std::exception_ptr& failure) {
  if (!failure) {
    const std::string lacks = thread_shortage();
    return lacks.empty() ? Error(ErrorKind::internal, "a library has given up without a reason")
                         : Error(ErrorKind::unavailable, "the machine has " + lacks);
  }
  try {
    std::rethrow_exception(failure);
  } catch (const Error& error) {
    return error;
  } catch (const std::exception& error) {
    if (auto lacks = troupe::as_shortage(error)) return *lacks;
    return {ErrorKind::internal, error.what()};
  } catch (...) {
    return {ErrorKind::internal, "an exception of unknown type"};
  }
}

/// Prints what an exception says on standard error and returns its exit code. What the machine had
/// too little of is named. `failure` may be null, as where a library destroys a thread while its
/// own exception is under way: then nothing is known but that the program could not go on.
int report_failure(const std::exception_ptr& failure) noexcept try {
  const Error error = error_of(failure);
  std::fprintf(stderr, "troupe: %s\n", error.what());
  return static_cast<int>(error.kind());
} catch (...) {  // not even the message had room
  std::fputs("troupe: the machine has no memory left\n", stderr);
  return static_cast<int>(ErrorKind::unavailable);
}

}  // namespace

int main(int argc, char** argv) {
  restore_signals();
  // An exception that nobody can catch, as in a thread of a library, ends the program with its text
  // and an exit code instead of SIGABRT.
  std::set_terminate([] { std::_Exit(report_failure(std::current_exception())); });
  try {
    const auto options = troupe::launch::parse_options(argc, argv);
    return std::visit([](const auto& chosen) { return troupe::launch::run(chosen); }, options);
  } catch (...) {
    return report_failure(std::current_exception());
  }
}
