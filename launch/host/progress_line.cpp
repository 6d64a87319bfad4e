#include "launch/host/progress_line.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "launch/host/quantities.h"

namespace troupe::launch {
namespace {

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

class ProgressLine {
 public:
  ProgressLine(const std::string& doing, const std::string& did, const std::string& by)
      : doing_(doing), did_(did), by_(by), terminal_(isatty(STDERR_FILENO) != 0) {}
  void operator()(std::uint64_t done, std::uint64_t total);

 private:
  using Clock = std::chrono::steady_clock;
  bool is_due(bool ends) const;

  std::string doing_, did_, by_;
  bool terminal_;
  Clock::time_point begin_ = Clock::now();
  Clock::time_point shown_ = begin_;
};

bool ProgressLine::is_due(bool ends) const {
  if (ends) return terminal_ || shown_ != begin_;
  const auto since = Clock::now() - shown_;
  return terminal_ ? since >= kBetweenFrames : since >= kBetweenLines;
}

void ProgressLine::operator()(std::uint64_t done, std::uint64_t total) {
  const bool ends = done >= total;
  if (!is_due(ends)) return;
  shown_ = Clock::now();
  const double seconds = std::chrono::duration<double>(shown_ - begin_).count();
  const double rate = static_cast<double>(done) / std::max(seconds, 1e-9);
  const std::string speed = text_of(static_cast<std::uint64_t>(rate)) + "/s" + by_;
  std::string line;
  if (!ends)
    line = fmt::format("{} {}, {:.0f} % done, {}, {} left", doing_, text_of(total),
                       100 * static_cast<double>(done) / static_cast<double>(total), speed,
                       duration_text(static_cast<double>(total - done) / std::max(rate, 1.0)));
  else if (!did_.empty())
    line = fmt::format("{} {} in {:.1f} s, {}", did_, text_of(total), seconds, speed);
  show(line, terminal_, ends && !line.empty());
}

/// Of parts that take seconds each, so that every one is told.
class PartsLine {
 public:
  explicit PartsLine(const std::string& doing) : doing_(doing) {}
  void operator()(std::uint64_t done, std::uint64_t total) const {
    if (done >= total) return show("", terminal_, false);
    const double seconds = std::chrono::duration<double>(Clock::now() - begin_).count();
    std::string line = doing_;
    if (done > 0)
      line += fmt::format(
          ", {} % done, {} left", 100 * done / total,
          duration_text(seconds * static_cast<double>(total - done) / static_cast<double>(done)));
    if (terminal_ || seconds >= 1) show(line, terminal_, false);
  }

 private:
  using Clock = std::chrono::steady_clock;
  std::string doing_;
  bool terminal_ = isatty(STDERR_FILENO) != 0;
  Clock::time_point begin_ = Clock::now();
};

}  // namespace

stages::Progress progress_of_parts(const std::string& doing) {
  return PartsLine(doing);
}

stages::Progress progress_line(const std::string& doing, const std::string& did,
                               const std::string& by) {
  return ProgressLine(doing, did, by);
}

}  // namespace troupe::launch
