#include "launch/host/resources.h"

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <future>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "tensor/errors/error.h"
#include "tensor/errors/shortage.h"

namespace troupe::launch {
namespace {

/// What a launcher opens for itself: some twenty files, sockets and pipes, and as many for those
/// who watch the run. A worker has some twenty, whatever the number of others.
constexpr int kOwn = 48;
/// Its process and its connection, and those of the worker that takes its place.
constexpr int kOfWorker = 4;
/// The soft limit of most systems, which is enough for any but the largest clusters.
constexpr rlim_t kUsual = 1024;
/// Enough for thousands of workers. A container's hard limit may be a billion, and a program that a
/// run starts may close every descriptor that its limit allows, one by one.
constexpr rlim_t kMost = 65536;

/// The soft limit, raised if it can be.
rlim_t raised_limit() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  const rlim_t raised = std::min(limit.rlim_max, kMost);
  if (raised > limit.rlim_cur) {
    limit.rlim_cur = raised;
    setrlimit(RLIMIT_NOFILE, &limit);
  }
  return limit.rlim_cur;
}

}  // namespace

void require_descriptors(int workers) {
  const int count = kOwn + kOfWorker * workers;
  const rlim_t limit = raised_limit();
  std::vector<int> open;
  int code = 0;
  while (code == 0 && std::ssize(open) < count) {
    const int fd = eventfd(0, EFD_CLOEXEC);
    if (fd < 0)
      code = errno;
    else
      open.push_back(fd);
  }
  for (const int fd : open) close(fd);
  if (code == 0) return;
  const rlim_t enough = std::max(kUsual, limit + static_cast<rlim_t>(count) - open.size());
  throw Error(
      ErrorKind::unavailable,
      fmt::format("the launcher needs {} descriptors beside those it has, and gets {}: it has {}{}",
                  count, open.size(), shortage(code),
                  code == EMFILE ? fmt::format("; ulimit -n {} is enough", enough) : ""));
}

void require_threads(int count) {
  std::promise<void> enough;
  const std::shared_future<void> all = enough.get_future().share();
  std::vector<std::jthread> threads;
  int code = 0;
  try {
    for (int i = 0; i < count; ++i) threads.emplace_back([all] { all.wait(); });
  } catch (const std::system_error& error) {
    code = error.code().value();
  }
  const std::string lacks = code == 0 ? "" : shortage(code);  // while they have what they take
  enough.set_value();
  if (code != 0)
    throw Error(ErrorKind::unavailable,
                fmt::format("the launcher needs {} threads, and the machine gives it {}: it has {}",
                            count, threads.size(), lacks));
}

}  // namespace troupe::launch
