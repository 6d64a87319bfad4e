#include "launch/screen/terminal.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <cerrno>

namespace troupe::launch {
namespace {

// The alternate screen, the cursor hidden, and no wrapping of lines, so that a line that is too
// long while the size changes pushes none away; and back.
constexpr const char* kEnter = "\x1b[?1049h\x1b[?25l\x1b[?7l";
constexpr const char* kLeave = "\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l";

}  // namespace

/// Opens the terminal once more: O_NONBLOCK belongs to the open file, which others, as the shell,
/// share.
Terminal::Terminal() : out_(open("/proc/self/fd/1", O_WRONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC)) {
  own_ = out_ >= 0;
  if (!own_) out_ = STDOUT_FILENO;
  keys_ = isatty(STDIN_FILENO) != 0 && tcgetattr(STDIN_FILENO, &before_) == 0;
  enter();
}

Terminal::~Terminal() {
  leave();
  if (own_) close(out_);
}

void Terminal::enter() {
  if (keys_) {
    termios raw = before_;
    raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    raw.c_iflag &= ~static_cast<tcflag_t>(ICRNL);
    raw.c_cc[VMIN] = 0;
    raw.c_cc[VTIME] = 0;
    tcsetattr(STDIN_FILENO, TCSANOW, &raw);
  }
  send(kEnter);
}

void Terminal::leave() {
  unsent_.clear();  // a frame that is not taken is not needed any more
  send(kLeave);
  unsent_.clear();
  if (keys_) tcsetattr(STDIN_FILENO, TCSANOW, &before_);
}

Terminal::Size Terminal::size() const {
  winsize size{};
  if (ioctl(out_, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0) return {};
  return {.width = size.ws_col, .height = size.ws_row};
}

void Terminal::send(const std::string& bytes) {
  unsent_ += bytes;
  flush();
}

void Terminal::flush() {
  while (!unsent_.empty()) {
    const ssize_t put = write(out_, unsent_.data(), unsent_.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0 && errno != EAGAIN) unsent_.clear();  // the terminal is gone, as keys will tell
    if (put <= 0) return;
    unsent_.erase(0, static_cast<std::size_t>(put));
  }
}

int Terminal::keyboard() const {
  return keys_ ? STDIN_FILENO : -1;
}

Terminal::Pressed Terminal::pressed() {
  std::array<char, 256> bytes;
  const ssize_t got = read(STDIN_FILENO, bytes.data(), bytes.size());
  if (got <= 0) return {.keys = {}, .gone = true};
  return {.keys = reader_.take({bytes.data(), static_cast<std::size_t>(got)})};
}

}  // namespace troupe::launch
