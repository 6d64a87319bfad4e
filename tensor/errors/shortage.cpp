#include "tensor/errors/shortage.h"

#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <new>
#include <string>
#include <system_error>
#include <vector>

namespace troupe {
namespace {

/// The soft limit; none if there is none.
std::optional<rlim_t> limit_of(__rlimit_resource resource) {
  rlimit limit{};
  if (getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return std::nullopt;
  return limit.rlim_cur;
}

/// A limit of this process's memory, and what it has of it, in bytes.
struct MemoryLimit {
  const char* option;  ///< of ulimit
  const char* what;
  rlim_t limit, used;
};

std::vector<MemoryLimit> memory_limits() {
  std::ifstream file("/proc/self/statm");
  rlim_t addresses = 0, data = 0, other = 0;
  file >> addresses >> other >> other >> other >> other >> data;
  const auto page = static_cast<rlim_t>(sysconf(_SC_PAGESIZE));
  std::vector<MemoryLimit> limits;
  if (const auto limit = limit_of(RLIMIT_AS))
    limits.push_back({"-v", "addresses", *limit, addresses * page});
  if (const auto limit = limit_of(RLIMIT_DATA))
    limits.push_back({"-d", "data", *limit, data * page});
  return limits;
}

std::string limits_text(const std::vector<MemoryLimit>& limits) {
  std::string text;
  for (const auto& [option, what, limit, used] : limits)
    text += (text.empty() ? " (ulimit " : "; ulimit ") + std::string(option) +
            " allows a process " + std::to_string(limit >> 10) + " KiB of " + what +
            ", and this one has " + std::to_string(used >> 10);
  return text.empty() ? "" : text + ")";
}

/// The limits that leave no room for the stack of a thread.
std::vector<MemoryLimit> limits_of_stacks() {
  constexpr rlim_t kUsualStack = rlim_t{8} << 20;
  const rlim_t stack = limit_of(RLIMIT_STACK).value_or(kUsualStack);
  auto limits = memory_limits();
  std::erase_if(limits, [&](const MemoryLimit& at) { return at.used + stack < at.limit; });
  return limits;
}

/// What keeps a thread or a process from being started.
std::string threads_text() {
  if (const auto full = limits_of_stacks(); !full.empty())
    return "no memory left for a thread's stack" + limits_text(full);
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
      return "no memory left" + limits_text(memory_limits());
    case EAGAIN:  // of a thread or a process
      return threads_text();
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
