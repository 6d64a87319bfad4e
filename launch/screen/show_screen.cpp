#include "launch/screen/show_screen.h"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>

#include "launch/control/event_json.h"
#include "launch/host/local_time.h"
#include "launch/screen/frame.h"
#include "launch/screen/panes.h"
#include "launch/screen/picture.h"
#include "launch/screen/terminal.h"

namespace troupe::launch {
namespace {

using Clock = std::chrono::steady_clock;

/// The shortest time between two frames that no key asked for.
constexpr std::chrono::milliseconds kFrame{200};

/// Stops the process for Ctrl-Z, as it would be without the screen, until it is continued.
void stop_here() {
  sigset_t stop;
  sigemptyset(&stop);
  sigaddset(&stop, SIGTSTP);
  raise(SIGTSTP);
  pthread_sigmask(SIG_UNBLOCK, &stop, nullptr);  // the process stops here
  pthread_sigmask(SIG_BLOCK, &stop, nullptr);
}

class Session {
 public:
  Session(const ShownRun& run, SignalFd& signals, const TerminalKind& kind)
      : run_(run), signals_(signals), writer_(kind) {}

  std::optional<Ending> show() {
    while (!left_) {
      if (terminal_.is_ready() && Clock::now() >= due_) draw();
      wait();
      if (const int signal = signals_.take(); signal != 0) obey_signal(signal);
      if (const auto ending = take_news()) return ending;
    }
    return std::nullopt;
  }

 private:
  void draw() {
    if (!state_.frozen || !now_) now_ = run_.watch.now(unix_seconds());
    const Terminal::Size size = terminal_.size();
    const ScreenPicture picture = draw_screen(*now_, state_, size.width, size.height, missed_);
    for (std::size_t pane = 0; pane < state_.scrolled.size(); ++pane)
      state_.scrolled[pane] = std::min(state_.scrolled[pane], picture.most_scrolled[pane]);
    page_ = picture.page;
    terminal_.send(writer_.frame(picture.grid));
    drawn_ = Clock::now();
    due_ = Clock::time_point::max();
  }

  /// Something has changed by itself.
  void draw_soon() { due_ = std::min(due_, std::max(drawn_ + kFrame, Clock::now())); }
  void draw_now() { due_ = Clock::now(); }

  /// Waits until there is something to do, and obeys keys.
  void wait() {
    const auto rest = std::chrono::duration_cast<std::chrono::milliseconds>(due_ - Clock::now());
    const bool idle = due_ == Clock::time_point::max() || !terminal_.is_ready();
    const auto input = [](int fd) { return pollfd{.fd = fd, .events = POLLIN, .revents = 0}; };
    std::array ready{
        input(run_.news ? run_.news->fd() : -1), input(run_.actions ? run_.actions->fd() : -1),
        input(signals_.fd()), input(terminal_.keyboard()),
        pollfd{
            .fd = terminal_.is_ready() ? -1 : terminal_.output(), .events = POLLOUT, .revents = 0}};
    poll(ready.data(), ready.size(), idle ? -1 : static_cast<int>(std::max(0L, rest.count() + 1)));
    if (ready[3].revents != 0) obey_keys();
    if (ready[4].revents != 0) terminal_.flush();
  }

  void obey_keys() {
    const auto [keys, gone] = terminal_.pressed();
    left_ |= gone;
    for (const KeyPress key : keys)
      left_ |=
          !obey(key, state_, now_ ? kinds_of_events(*now_) : std::vector<std::string>{}, page_);
    draw_now();
  }

  void obey_signal(int signal) {
    if (signal == SIGTSTP) {
      terminal_.leave();
      stop_here();
    } else if (signal != SIGWINCH && signal != SIGCONT) {
      left_ = true;
      return;
    }
    if (signal != SIGWINCH) terminal_.enter();
    writer_.forget();
    draw_now();
  }

  /// Takes what has come, and returns how the run ended if it has.
  std::optional<Ending> take_news() {
    if (!run_.news) return std::nullopt;
    Attachment::News news = run_.news->take();
    apply(news);
    missed_ += news.dropped;
    if (run_.actions && !news.ended) {
      const Attachment::News actions = run_.actions->take();
      if (actions.dropped > 0) run_.watch.miss();
      apply(actions);
      if (actions.ended) run_.actions = nullptr;
    }
    return news.ended;
  }

  void apply(const Attachment::News& news) {
    for (const auto& json : news.events)
      if (const auto event = received_event(json)) run_.watch.apply(*event);
    if (!news.events.empty() || news.dropped > 0) draw_soon();
  }

  ShownRun run_;
  SignalFd& signals_;
  Terminal terminal_;
  FrameWriter writer_;
  ScreenState state_;
  std::optional<RunNow> now_;  // what is shown
  std::uint64_t missed_ = 0;
  int page_ = 1;
  bool left_ = false;
  Clock::time_point drawn_;
  Clock::time_point due_ =
      Clock::now();  // when the next frame is to be drawn; max: nothing changed
};

}  // namespace

std::optional<Ending> show_screen(const ShownRun& run, SignalFd& signals,
                                  const TerminalKind& kind) {
  return Session(run, signals, kind).show();
}

}  // namespace troupe::launch
