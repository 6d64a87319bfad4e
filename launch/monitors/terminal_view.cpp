#include "launch/monitors/terminal_view.h"

#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <string>

#include "launch/host/console.h"
#include "launch/monitors/terminal_page.h"

namespace troupe::launch {
namespace {

using Clock = std::chrono::steady_clock;

/// The shortest time between two pages, so that a slow connection keeps up.
constexpr std::chrono::milliseconds kFrame{200};

// Escape sequences: switch to the alternate screen and hide the cursor, and back.
constexpr const char* kEnter = "\x1b[?1049h\x1b[?25l";
constexpr const char* kLeave = "\x1b[?25h\x1b[?1049l";
constexpr const char* kHome = "\x1b[H";
constexpr const char* kBold = "\x1b[1m";
constexpr const char* kPlain = "\x1b[0m";
constexpr const char* kClearLine = "\x1b[K";
constexpr const char* kClearBelow = "\x1b[J";

/// Holds the terminal in the view's mode as long as it lives: alternate screen, no echo, each key
/// delivered at once.
class Screen {
 public:
  Screen() {
    keys_ = isatty(STDIN_FILENO) != 0 && tcgetattr(STDIN_FILENO, &before_) == 0;
    enter();
  }
  Screen(const Screen&) = delete;
  ~Screen() { leave(); }

  /// Sets the view's mode. Called again after the process was stopped, because the shell has set
  /// its own modes meanwhile.
  void enter() const {
    if (keys_) {
      termios raw = before_;
      raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
      raw.c_cc[VMIN] = 0;
      raw.c_cc[VTIME] = 0;
      tcsetattr(STDIN_FILENO, TCSANOW, &raw);
    }
    show(kEnter);
  }
  void leave() const {
    show(kLeave);
    if (keys_) tcsetattr(STDIN_FILENO, TCSANOW, &before_);
  }

  bool has_keys() const { return keys_; }

  void fit(PageOptions& options) const {
    winsize size{};
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return;
    options.width = size.ws_col;
    options.height = size.ws_row;
  }

  void draw(const std::vector<std::string>& page) const {
    std::string out = kHome;
    for (std::size_t i = 0; i < page.size(); ++i) {
      const bool edge = i == 0 || i + 1 == page.size();
      out += (i == 0 ? "" : "\r\n") + (edge ? kBold + page[i] + kPlain : page[i]) + kClearLine;
    }
    print(out + kClearBelow);
  }

 private:
  termios before_{};
  bool keys_ = false;
};

/// Stops the process for Ctrl-Z, as it would be without the view, until it is continued.
void stop_here() {
  sigset_t stop;
  sigemptyset(&stop);
  sigaddset(&stop, SIGTSTP);
  raise(SIGTSTP);
  pthread_sigmask(SIG_UNBLOCK, &stop, nullptr);  // the process stops here
  pthread_sigmask(SIG_BLOCK, &stop, nullptr);
}

/// Acts on a signal; the terminal is restored while the process is stopped. Returns false if the
/// signal means to leave.
bool obey_signal(int signal, const Screen& screen, PageOptions& options) {
  if (signal == SIGTSTP) {
    screen.leave();
    stop_here();
  } else if (signal != SIGWINCH && signal != SIGCONT) {
    return false;
  }
  if (signal != SIGWINCH) screen.enter();
  screen.fit(options);
  return true;
}

/// Acts on a key. Returns false if it means to leave.
bool obey(char key, PageOptions& options) {
  switch (key) {
    case 'q':
    case 'Q':
      return false;
    case ' ':
      options.frozen = !options.frozen;
      break;
    case 'e':
      options.events_only = !options.events_only;
      break;
    case 'j':
      ++options.first_rank;
      break;
    case 'k':
      options.first_rank = std::max(0, options.first_rank - 1);
      break;
    default:
      break;
  }
  return true;
}

/// Acts on all keys that have been pressed. Returns false if one means to leave, or if the terminal
/// is gone.
bool obey_keys(PageOptions& options) {
  std::array<char, 64> keys;
  const ssize_t got = read(STDIN_FILENO, keys.data(), keys.size());
  if (got <= 0) return false;
  for (ssize_t i = 0; i < got; ++i)
    if (!obey(keys[static_cast<std::size_t>(i)], options)) return false;
  return true;
}

}  // namespace

std::optional<Ending> show_terminal(Attachment& run, SignalFd& signals) {
  const Screen screen;
  RunPicture now(run.status());
  RunPicture shown = now;
  PageOptions options;
  screen.fit(options);
  auto next_frame = Clock::now();
  while (true) {
    if (!options.frozen) shown = now;
    if (Clock::now() >= next_frame) {
      screen.draw(terminal_page(shown, options));
      next_frame = Clock::now() + kFrame;
    }
    std::array<pollfd, 3> ready{
        {{.fd = run.fd(), .events = POLLIN, .revents = 0},
         {.fd = signals.fd(), .events = POLLIN, .revents = 0},
         {.fd = screen.has_keys() ? STDIN_FILENO : -1, .events = POLLIN, .revents = 0}}};
    poll(ready.data(), ready.size(), static_cast<int>(kFrame.count()));
    if (const int signal = signals.take(); signal != 0) {
      if (!obey_signal(signal, screen, options)) return std::nullopt;
      next_frame = Clock::now();
    }
    if (ready[2].revents != 0) {
      if (!obey_keys(options)) return std::nullopt;
      next_frame = Clock::now();
    }
    const Attachment::News news = run.take();
    for (const auto& event : news.events) now.apply(event);
    now.count_dropped(news.dropped);
    if (news.ended) return news.ended;
  }
}

}  // namespace troupe::launch
