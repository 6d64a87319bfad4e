#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>

#include "launch/host/device_json.h"
#include "launch/host/machine.h"

namespace troupe::launch {
namespace {

/// A driver that wakes a machine's GPUs may take many seconds; a longer silence is a fault.
constexpr std::chrono::seconds kDeadline{120};

/// Starts `troupe devices` with standard output into the descriptor. Returns 0 or an error number.
int start(pid_t& child, int output) {
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, output, STDOUT_FILENO);
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);  // Ctrl-C ends it, whatever this process blocks
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  std::array<char*, 3> arguments{const_cast<char*>("troupe"), const_cast<char*>("devices"),
                                 nullptr};
  const int error =
      posix_spawn(&child, "/proc/self/exe", &files, &attributes, arguments.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  return error;
}

/// Reads to the end of the output; false if that takes longer than the deadline.
bool read_all(int fd, std::string& into) {
  const auto end = std::chrono::steady_clock::now() + kDeadline;
  for (std::array<char, 4096> part{};;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        end - std::chrono::steady_clock::now());
    pollfd waiting{.fd = fd, .events = POLLIN, .revents = 0};
    const int ready = left.count() > 0 ? poll(&waiting, 1, static_cast<int>(left.count())) : 0;
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return false;
    const ssize_t got = read(fd, part.data(), part.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return true;
    into.append(part.data(), static_cast<std::size_t>(got));
  }
}

/// What the process answered, or the fault that kept it from it.
tensor::DeviceReport report_from(const std::string& text, bool in_time, int status) try {
  if (!in_time)
    return {.fault =
                fmt::format("the NVIDIA driver did not answer within {} s", kDeadline.count())};
  if (WIFSIGNALED(status))
    return {.fault = fmt::format("looking for GPUs was ended by signal {}", WTERMSIG(status))};
  return nlohmann::json::parse(text).get<tensor::DeviceReport>();
} catch (const nlohmann::json::exception&) {
  return {.fault = fmt::format("looking for GPUs failed with exit code {}", WEXITSTATUS(status))};
}

}  // namespace

tensor::DeviceReport own_gpus() {
  tensor::DeviceReport report;
  std::array<int, 2> ends{-1, -1};
  pid_t child = -1;
  int error = pipe2(ends.data(), O_CLOEXEC) == 0 ? 0 : errno;
  if (error == 0) error = start(child, ends[1]);
  if (error != 0) report.fault = fmt::format("cannot look for GPUs: {}", std::strerror(error));
  if (ends[1] >= 0) close(ends[1]);
  if (error == 0) {
    std::string text;
    const bool in_time = read_all(ends[0], text);
    if (!in_time) kill(child, SIGKILL);
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    report = report_from(text, in_time, status);
  }
  if (ends[0] >= 0) close(ends[0]);
  return report;
}

}  // namespace troupe::launch
