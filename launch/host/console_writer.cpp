#include "launch/host/console_writer.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <limits.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <ctime>
#include <string_view>
#include <utility>

#include "schedules/plan/counted.h"

namespace troupe::launch {
namespace {

/// Opens a terminal or pipe again, because other processes that share its open file description,
/// such as a shell, must not find it in non-blocking mode. Any other file is always ready to be
/// written.
int open_own(int fd) {
  struct stat status {};
  if (fstat(fd, &status) == 0 && (S_ISFIFO(status.st_mode) || isatty(fd) != 0)) {
    const int own = open(fmt::format("/proc/self/fd/{}", fd).c_str(),
                         O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (own >= 0) return own;
  }
  return fcntl(fd, F_DUPFD_CLOEXEC, 0);
}

/// Whole lines, each with the local time before it.
std::string stamped(const std::string& lines) {
  const std::string now =
      fmt::format("{:%Y-%m-%d %H:%M:%S%z} ", fmt::localtime(std::time(nullptr)));
  std::string out;
  for (std::size_t begin = 0; begin < lines.size();) {
    const std::size_t end = std::min(lines.find('\n', begin), lines.size() - 1) + 1;
    out += now;
    out.append(lines, begin, end - begin);
    begin = end;
  }
  return out;
}

}  // namespace

ConsoleWriter::ConsoleWriter(int out, int err)
    : out_(open_own(out)),
      err_(open_own(err)),
      quit_fd_(eventfd(0, EFD_CLOEXEC)),
      thread_([this] { loop(); }) {}

ConsoleWriter::~ConsoleWriter() {
  finish();
  for (const int fd : {out_, err_, quit_fd_})
    if (fd >= 0) close(fd);
}

void ConsoleWriter::show(std::string lines) {
  if (!lines.empty()) add({.fd = out_, .bytes = std::move(lines)});
}

void ConsoleWriter::print_error(const std::string& text) {
  add({.fd = err_, .bytes = "troupe: " + text + "\n"});
}

void ConsoleWriter::add(Text text) {
  if (stamps_) text.bytes = stamped(text.bytes);
  {
    const std::lock_guard lock(mutex_);
    if (waiting_.size() == kMaxWaiting) {
      waiting_.pop_front();
      ++dropped_;
    }
    waiting_.push_back(std::move(text));
  }
  changed_.notify_all();
}

void ConsoleWriter::finish() {
  if (!thread_.joinable()) return;
  {
    std::unique_lock lock(mutex_);
    ending_ = true;
    changed_.notify_all();
    for (auto seen = progress_ + 1; !is_done_ && seen != progress_;) {
      seen = progress_;
      changed_.wait_for(lock, kEndTimeout, [&] { return is_done_ || progress_ != seen; });
    }
  }
  eventfd_write(quit_fd_, 1);
  thread_.join();
}

bool ConsoleWriter::has_failed() const {
  const std::lock_guard lock(mutex_);
  return has_failed_;
}

void ConsoleWriter::loop() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return ending_ || !waiting_.empty(); });
    if (waiting_.empty()) break;
    if (const auto dropped = std::exchange(dropped_, 0); dropped > 0)
      waiting_.push_front({.fd = out_,
                           .bytes = fmt::format(
                               "[left out here, because the output was not read: {}]\n",
                               schedules::counted(static_cast<std::int64_t>(dropped), "message"))});
    const Text text = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    write(text);
    lock.lock();
  }
  is_done_ = true;
  changed_.notify_all();
}

void ConsoleWriter::write(const Text& text) {
  for (std::string_view rest = text.bytes; !rest.empty() && wait_for_room(text.fd);) {
    // A pipe that polls as writable has room for PIPE_BUF bytes.
    const ssize_t n = ::write(text.fd, rest.data(), std::min(rest.size(), std::size_t{PIPE_BUF}));
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    const std::lock_guard lock(mutex_);
    if (n < 0) {
      has_failed_ |= text.fd == out_;
      return;
    }
    rest.remove_prefix(static_cast<std::size_t>(n));
    progress_ += static_cast<std::size_t>(n);
    changed_.notify_all();
  }
}

/// Waits until the descriptor can be written. Returns false if the thread must end instead.
bool ConsoleWriter::wait_for_room(int fd) {
  if (fd < 0) return true;  // the write reports the error
  std::array<pollfd, 2> ready{{{.fd = fd, .events = POLLOUT}, {.fd = quit_fd_, .events = POLLIN}}};
  while (poll(ready.data(), ready.size(), -1) < 0 && errno == EINTR) {
  }
  return ready[0].revents != 0 || ready[1].revents == 0;
}

}  // namespace troupe::launch
