#include "actors/messages/start_deadline.h"

#include <signal.h>
#include <unistd.h>

#include <string_view>

#include "tensor/errors/error.h"

namespace troupe::actors {
namespace {

/// The start takes some milliseconds.
constexpr unsigned kSeconds = 10;

/// A handler: calls only what is allowed in one.
[[noreturn]] void give_up(int) {
  constexpr std::string_view kText =
      "troupe: the control plane could not start: the machine has no thread, memory or descriptor "
      "left for it\n";
  [[maybe_unused]] const auto written = write(STDERR_FILENO, kText.data(), kText.size());
  _exit(static_cast<int>(ErrorKind::unavailable));
}

}  // namespace

StartDeadline::StartDeadline() {
  struct sigaction action {};
  action.sa_handler = give_up;
  for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &action, &before_[i]);
  alarm(kSeconds);
}

StartDeadline::~StartDeadline() {
  alarm(0);
  for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &before_[i], nullptr);
}

}  // namespace troupe::actors
