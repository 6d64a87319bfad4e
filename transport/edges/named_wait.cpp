#include "transport/edges/named_wait.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace troupe::transport {
namespace {

double seconds(Clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

int rank_named(const RankNames& ranks, int process) {
  const auto found = ranks.find(process);
  return found == ranks.end() ? process : found->second;
}

std::string to_string(const WaitNote& note, const RankNames& ranks) {
  const int peer = rank_named(ranks, note.peer);
  switch (note.what) {
    case WaitNote::What::message:
      return fmt::format("{} from rank {}", to_string(note.key), peer);
    case WaitNote::What::credit:
      return fmt::format("credit for {} from rank {}", to_string(note.key), peer);
    case WaitNote::What::send_buffer:
      return fmt::format("a send buffer for {} to rank {}", to_string(note.key), peer);
    case WaitNote::What::departure:
      return fmt::format("the tensors sent to rank {} to leave", peer);
    case WaitNote::What::collective:
      break;
  }
  std::vector<int> missing;
  for (const int process : note.missing) missing.push_back(rank_named(ranks, process));
  return fmt::format("{} {} of group \"{}\", missing rank{} {}", note.operation, note.sequence,
                     *note.group, missing.size() == 1 ? "" : "s", fmt::join(missing, ", "));
}

void WaitBoard::set_deadline(std::chrono::milliseconds deadline) {
  const std::lock_guard lock(mutex_);
  deadline_ = deadline;
}

void WaitBoard::set_ranks(const RankNames& ranks) {
  const std::lock_guard lock(mutex_);
  ranks_ = ranks;
}

int WaitBoard::rank_of(int process) const {
  const std::lock_guard lock(mutex_);
  return rank_named(ranks_, process);
}

std::optional<Wait> WaitBoard::current() const {
  const std::lock_guard lock(mutex_);
  if (!note_) return std::nullopt;
  Wait wait{.what = to_string(*note_, ranks_), .seconds = seconds(Clock::now() - since_)};
  if (note_->what == WaitNote::What::collective)
    wait.on.assign(note_->missing.begin(), note_->missing.end());
  else
    wait.on.push_back(note_->peer);
  return wait;
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
                     to_string(*board_.note_, board_.ranks_));
}

}  // namespace troupe::transport
