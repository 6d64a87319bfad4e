#include "launch/host/signals.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <utility>

#include "launch/host/console.h"
#include "tensor/error.h"

namespace troupe::launch {
namespace {

/// The signals that were not ignored when this process started. (nohup, for example, has its child
/// ignore SIGHUP.)
sigset_t watched_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction action {};
    sigaction(number, nullptr, &action);
    if (action.sa_handler != SIG_IGN) sigaddset(&set, number);
  }
  return set;
}

}  // namespace

SignalWatch::Orders SignalWatch::ending_process(const std::string& when) {
  const auto end = [when](const std::string& reason) {
    print_error(reason + when);
    std::_Exit(static_cast<int>(ErrorKind::retry));
  };
  return {.stop = end, .stop_now = end};
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
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = write(quit_fd_, &one, sizeof one);
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
  if (orders_.stop && !unheard_stop_.empty()) orders_.stop(std::exchange(unheard_stop_, {}));
  if (orders_.stop_now && !unheard_stop_now_.empty())
    orders_.stop_now(std::exchange(unheard_stop_now_, {}));
}

void SignalWatch::loop() {
  while (true) {
    std::array<pollfd, 2> fds{pollfd{.fd = signal_fd_, .events = POLLIN, .revents = 0},
                              pollfd{.fd = quit_fd_, .events = POLLIN, .revents = 0}};
    poll(fds.data(), fds.size(), -1);
    if (fds[1].revents != 0) return;
    signalfd_siginfo info{};
    if (fds[0].revents != 0 && read(signal_fd_, &info, sizeof info) == sizeof info)
      on_signal(static_cast<int>(info.ssi_signo));
  }
}

void SignalWatch::on_signal(int signal) {
  const std::string name = fmt::format("SIG{}", sigabbrev_np(signal));
  const std::lock_guard lock(mutex_);
  if (!stopping_) {
    stopping_ = true;
    unheard_stop_ = "stopped by " + name;
  } else if (signal != SIGHUP) {
    unheard_stop_now_ = "stopped at once by a second signal, " + name;
  }
  obey();
}

}  // namespace troupe::launch
