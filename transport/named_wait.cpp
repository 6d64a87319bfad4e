#include "transport/named_wait.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace troupe::transport {
namespace {

double seconds(Clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

std::string to_string(const WaitNote& note) {
  switch (note.what) {
    case WaitNote::What::message:
      return fmt::format("{} from rank {}", to_string(note.key), note.peer);
    case WaitNote::What::credit:
      return fmt::format("credit for {} from rank {}", to_string(note.key), note.peer);
    case WaitNote::What::send_buffer:
      return fmt::format("a send buffer for {} to rank {}", to_string(note.key), note.peer);
    case WaitNote::What::departure:
      return fmt::format("the tensors sent to rank {} to leave", note.peer);
    case WaitNote::What::collective:
      break;
  }
  return fmt::format("{} {} of group \"{}\", missing rank{} {}", note.operation, note.sequence,
                     *note.group, note.missing.size() == 1 ? "" : "s",
                     fmt::join(note.missing.span(), ", "));
}

void WaitBoard::set_deadline(std::chrono::milliseconds deadline) {
  const std::lock_guard lock(mutex_);
  deadline_ = deadline;
}

std::optional<Wait> WaitBoard::current() const {
  const std::lock_guard lock(mutex_);
  if (!note_) return std::nullopt;
  return Wait{.what = to_string(*note_), .seconds = seconds(Clock::now() - since_)};
}

NamedWait::NamedWait(WaitBoard& board, const WaitNote& note) : board_(board) {
  const std::lock_guard lock(board_.mutex_);
  board_.since_ = Clock::now();
  deadline_ =
      board_.deadline_.count() == 0 ? Clock::time_point::max() : board_.since_ + board_.deadline_;
  board_.note_ = note;
}

NamedWait::~NamedWait() {
  const std::lock_guard lock(board_.mutex_);
  board_.note_.reset();
}

void NamedWait::update(const WaitNote& note) {
  const std::lock_guard lock(board_.mutex_);
  board_.note_ = note;
}

std::optional<std::string> NamedWait::overdue() const {
  if (Clock::now() < deadline_) return std::nullopt;
  const std::lock_guard lock(board_.mutex_);
  return fmt::format("waited {:g} s for {}", seconds(deadline_ - board_.since_),
                     to_string(*board_.note_));
}

}  // namespace troupe::transport
