#include "launch/host/signals.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <utility>

#include "launch/host/console.h"
#include "tensor/errors/error.h"

namespace troupe::launch {
namespace {

constexpr std::array kWarnings{SIGUSR1, SIGUSR2, SIGXCPU};

bool is_warning(int signal) {
  return std::ranges::find(kWarnings, signal) != kWarnings.end();
}

/// The signals that this process does not ignore. (nohup, for example, has its child ignore
/// SIGHUP.)
sigset_t watched_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGXCPU}) {
    struct sigaction action {};
    sigaction(number, nullptr, &action);
    if (action.sa_handler != SIG_IGN) sigaddset(&set, number);
  }
  return set;
}

}  // namespace

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

SignalWatch::Orders SignalWatch::ending_process(const std::string& when) {
  const auto end = [when](const std::string& reason) {
    print_error(reason + when);
    std::_Exit(static_cast<int>(ErrorKind::retry));
  };
  const auto warn = [when](const std::string& signal) {
    print_error(signal + when + ": there is nothing to save yet");
  };
  return {.save = warn, .stop = end, .stop_now = end};
}

SignalWatch::SignalWatch(const std::string& when) : orders_(ending_process(when)) {
  const sigset_t set = watched_signals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  signal_fd_ = signalfd(-1, &set, SFD_CLOEXEC);
  quit_fd_ = eventfd(0, EFD_CLOEXEC);
  if (signal_fd_ < 0 || quit_fd_ < 0)
    throw Error(ErrorKind::unavailable, "cannot watch signals: no descriptors left");
  thread_ = std::thread([this] { loop(); });
}

SignalWatch::~SignalWatch() {
  eventfd_write(quit_fd_, 1);
  thread_.join();
  close(signal_fd_);
  close(quit_fd_);
}

void SignalWatch::orders(Orders orders) {
  const std::lock_guard lock(mutex_);
  orders_ = std::move(orders);
  obey();
}

void SignalWatch::obey() {
  if (orders_.save && !unheard_save_.empty()) orders_.save(std::exchange(unheard_save_, {}));
  if (orders_.stop && !unheard_stop_.empty()) orders_.stop(std::exchange(unheard_stop_, {}));
  if (orders_.stop_now && !unheard_stop_now_.empty())
    orders_.stop_now(std::exchange(unheard_stop_now_, {}));
}

void SignalWatch::loop() {
  while (true) {
    std::array<pollfd, 2> fds{pollfd{.fd = signal_fd_, .events = POLLIN, .revents = 0},
                              pollfd{.fd = quit_fd_, .events = POLLIN, .revents = 0}};
    const int ready = poll(fds.data(), fds.size(), patience_ms());
    if (fds[1].revents != 0) return;
    if (ready == 0) {
      print_error("the run has not ended within " + std::to_string(kEndDeadline.count()) +
                  " s of the second signal, and is given up");
      std::_Exit(static_cast<int>(ErrorKind::retry));
    }
    signalfd_siginfo info{};
    if (fds[0].revents != 0 && read(signal_fd_, &info, sizeof info) == sizeof info)
      on_signal(static_cast<int>(info.ssi_signo));
  }
}

void SignalWatch::on_signal(int signal) {
  const std::string name = fmt::format("SIG{}", sigabbrev_np(signal));
  const std::lock_guard lock(mutex_);
  if (is_warning(signal) && !warned_ && !stopping_) {
    unheard_save_ = name;
    warned_ = true;
  } else if (!stopping_) {
    stopping_ = true;
    unheard_stop_ = "stopped by " + name;
  } else if (signal != SIGHUP && !is_warning(signal)) {
    unheard_stop_now_ = "stopped at once by a second signal, " + name;
    if (!ends_by_) ends_by_ = std::chrono::steady_clock::now() + kEndDeadline;
  }
  obey();
}

/// How long the thread may wait for the next signal: for ever, unless the process is to stop now.
int SignalWatch::patience_ms() const {
  using std::chrono::milliseconds;
  if (!ends_by_) return -1;
  const auto left = *ends_by_ - std::chrono::steady_clock::now();
  return static_cast<int>(std::max(std::chrono::ceil<milliseconds>(left), milliseconds(0)).count());
}

}  // namespace troupe::launch
