#include "transport/ucx/ucx_environment.h"

#include <ucs/debug/debug.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <string_view>

namespace troupe::transport {
namespace {

/// UCX's own choice, 8 KiB, more than halves the bandwidth where nothing is sent in place.
constexpr const char* kTcpSegment = "64k";

}  // namespace

bool UcxEnvironment::may_share_memory() const {
  if (transports.empty()) return true;
  // Names of UCX's shared-memory transports and of their aliases; "^x" allows all but x.
  constexpr std::array<std::string_view, 7> names{"all", "^", "shm", "sm", "mm", "sysv", "posix"};
  return std::ranges::any_of(
      names, [this](std::string_view name) { return transports.find(name) != transports.npos; });
}

UcxEnvironment prepare_ucx() {
  // In a context's own configuration UCX warns of this setting if the context opens no TCP.
  ::setenv("UCX_TCP_TX_SEG_SIZE", kTcpSegment, 0);
  // UCX takes over these signals when it is loaded; a crash is the program's to report.
  if (!std::getenv("UCX_HANDLE_ERRORS"))
    for (const int signal : {SIGILL, SIGSEGV, SIGBUS, SIGFPE}) ucs_debug_disable_signal(signal);
  const char* transports = std::getenv("UCX_TLS");
  return {.transports = transports ? transports : "",
          .has_devices = std::getenv("UCX_NET_DEVICES") != nullptr,
          .has_rendezvous_threshold = std::getenv("UCX_RNDV_THRESH") != nullptr};
}

}  // namespace troupe::transport
