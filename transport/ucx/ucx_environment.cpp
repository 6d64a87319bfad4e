#include "transport/ucx/ucx_environment.h"

#include <ucs/debug/debug.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <sstream>
#include <vector>

namespace troupe::transport {
namespace {

/// Size of UCX's TCP segments. Its default, 8 KiB, more than halves the bandwidth if nothing is
/// sent in place, as UcxWorker has it.
constexpr const char* kTcpSegment = "64k";

std::vector<std::string> split(const std::string& list) {
  std::vector<std::string> items;
  std::istringstream text(list);
  for (std::string item; std::getline(text, item, ',');) items.push_back(item);
  return items;
}

}  // namespace

bool UcxEnvironment::may_share_memory() const {
  if (transports.empty()) return true;
  const bool excludes = transports.starts_with('^');
  const std::vector<std::string> names = split(transports.substr(excludes ? 1 : 0));
  const auto has = [&names](const char* name) {
    return std::ranges::find(names, name) != names.end();
  };
  const bool has_alias = has("shm") || has("sm") || has("mm");
  if (excludes) return !has_alias && !(has("posix") && has("sysv"));
  return has_alias || has("all") || has("posix") || has("sysv");
}

UcxEnvironment prepare_ucx() {
  // Set in the environment, because UCX warns of this setting in the configuration of a context
  // that opens no TCP.
  ::setenv("UCX_TCP_TX_SEG_SIZE", kTcpSegment, 0);
  // UCX takes over these signals when it is loaded, but the program reports its crashes itself.
  if (!std::getenv("UCX_HANDLE_ERRORS"))
    for (const int signal : {SIGILL, SIGSEGV, SIGBUS, SIGFPE}) ucs_debug_disable_signal(signal);
  const char* transports = std::getenv("UCX_TLS");
  return {.transports = transports ? transports : "",
          .has_devices = std::getenv("UCX_NET_DEVICES") != nullptr,
          .has_rendezvous_threshold = std::getenv("UCX_RNDV_THRESH") != nullptr};
}

}  // namespace troupe::transport
