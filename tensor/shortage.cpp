#include "tensor/shortage.h"

#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <new>
#include <string>
#include <system_error>

namespace troupe {
namespace {

/// The soft limit; none if there is none.
std::optional<rlim_t> limit_of(__rlimit_resource resource) {
  rlimit limit{};
  if (getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return std::nullopt;
  return limit.rlim_cur;
}

/// The address space that this process uses, in bytes.
rlim_t used_addresses() {
  std::ifstream file("/proc/self/statm");
  rlim_t pages = 0;
  file >> pages;
  return pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE));
}

/// How much `ulimit -v` leaves; empty if it leaves all.
std::string addresses_text() {
  const auto limit = limit_of(RLIMIT_AS);
  if (!limit) return "";
  return " (ulimit -v allows a process " + std::to_string(*limit >> 10) +
         " KiB of addresses, and this one has " + std::to_string(used_addresses() >> 10) + ")";
}

/// Whether the limit of the address space leaves no room for the stack of a thread.
bool lacks_stack() {
  constexpr rlim_t kUsualStack = rlim_t{8} << 20;
  const auto limit = limit_of(RLIMIT_AS);
  return limit && used_addresses() + limit_of(RLIMIT_STACK).value_or(kUsualStack) >= *limit;
}

std::string threads_text() {
  std::string limits;
  if (const auto limit = limit_of(RLIMIT_NPROC))
    limits = "ulimit -u allows this user " + std::to_string(*limit);
  limits += (limits.empty() ? "" : ", ") + std::string("a container has its limit of pids");
  return "no thread or process left (" + limits + ")";
}

}  // namespace

std::string shortage(int code) {
  switch (code) {
    case ENOMEM:
      return "no memory left" + addresses_text();
    case EAGAIN:  // of a thread or a process
      return lacks_stack() ? "no memory left for a thread's stack" + addresses_text()
                           : threads_text();
    case EMFILE:
      return "no descriptor left (ulimit -n allows a process " +
             std::to_string(limit_of(RLIMIT_NOFILE).value_or(0)) + ")";
    case ENFILE:
      return "no descriptor left on this machine (fs.file-max)";
    default:
      return "";
  }
}

std::optional<Error> as_shortage(const std::exception& exception) {
  std::string what;
  if (dynamic_cast<const std::bad_alloc*>(&exception)) what = shortage(ENOMEM);
  if (const auto* error = dynamic_cast<const std::system_error*>(&exception))
    what = shortage(error->code().value());
  if (what.empty()) return std::nullopt;
  return Error(ErrorKind::unavailable, "the machine has " + what);
}

}  // namespace troupe
