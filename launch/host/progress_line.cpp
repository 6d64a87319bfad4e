#include "launch/host/progress_line.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "launch/host/quantities.h"

namespace troupe::launch {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kBetweenLines{5};
/// Often enough to look steady.
constexpr std::chrono::milliseconds kBetweenFrames{50};

std::string text_of(std::uint64_t bytes) {
  return bytes_text(static_cast<std::int64_t>(bytes));
}

/// On a terminal a line overwrites the one before; the escape code erases the rest of a longer one.
void show(const std::string& line, bool terminal, bool stays) {
  if (terminal)
    std::fputs(("\r" + line + "\x1b[K" + (stays ? "\n" : "")).c_str(), stderr);
  else if (!line.empty())
    std::fputs((line + "\n").c_str(), stderr);
}

}  // namespace

stages::Progress progress_of_parts(const std::string& doing) {
  // Parts take seconds each, so every one is told.
  return [doing, terminal = isatty(STDERR_FILENO) != 0, begin = Clock::now()](std::uint64_t done,
                                                                              std::uint64_t total) {
    if (done >= total) return show("", terminal, false);
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    std::string line = doing;
    if (done > 0)
      line += fmt::format(
          ", {} % done, {} left", 100 * done / total,
          duration_text(seconds * static_cast<double>(total - done) / static_cast<double>(done)));
    if (terminal || seconds >= 1) show(line, terminal, false);
  };
}

stages::Progress progress_line(const std::string& doing, const std::string& did,
                               const std::string& by) {
  const auto begin = Clock::now();
  return [=, terminal = isatty(STDERR_FILENO) != 0, shown = begin](std::uint64_t done,
                                                                   std::uint64_t total) mutable {
    const auto now = Clock::now();
    const bool ends = done >= total;
    const Clock::duration pause = terminal ? Clock::duration(kBetweenFrames) : kBetweenLines;
    if (ends ? !terminal && shown == begin : now - shown < pause) return;
    shown = now;
    const double seconds = std::chrono::duration<double>(now - begin).count();
    const double rate = static_cast<double>(done) / std::max(seconds, 1e-9);
    const std::string speed = text_of(static_cast<std::uint64_t>(rate)) + "/s" + by;
    std::string line;
    if (!ends)
      line = fmt::format("{} {}, {:.0f} % done, {}, {} left", doing, text_of(total),
                         100 * static_cast<double>(done) / static_cast<double>(total), speed,
                         duration_text(static_cast<double>(total - done) / std::max(rate, 1.0)));
    else if (!did.empty())
      line = fmt::format("{} {} in {:.1f} s, {}", did, text_of(total), seconds, speed);
    show(line, terminal, ends && !line.empty());
  };
}

}  // namespace troupe::launch
