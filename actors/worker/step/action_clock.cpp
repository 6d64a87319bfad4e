#include "actors/worker/step/action_clock.h"

#include <algorithm>
#include <numeric>

namespace troupe::actors {

void ActionClock::begin(std::size_t action, tensor::Stream& stream) {
  if (marks_.size() == pieces_.size())
    marks_.push_back({.begin = device_.make_timed_event(), .end = device_.make_timed_event()});
  marks_[pieces_.size()].begin->record(stream);
  const std::chrono::duration<double> now = std::chrono::steady_clock::now().time_since_epoch();
  pieces_.push_back({.action = action, .queued_s = now.count()});
}

std::size_t ActionClock::end(tensor::Stream& stream, double waited_s) {
  const std::size_t piece = pieces_.size() - 1;
  marks_[piece].end->record(stream);
  pieces_[piece].waited_s = waited_s;
  return piece;
}

const std::vector<ActionClock::Piece>& ActionClock::read() {
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    pieces_[i].begin_s = marks_[i].begin->reached_s();
    pieces_[i].end_s = marks_[i].end->reached_s();
  }
  return pieces_;
}

double ActionClock::busy_s() const {
  order_.resize(pieces_.size());
  std::iota(order_.begin(), order_.end(), std::size_t{0});
  const auto begins = [this](std::size_t i) { return pieces_[i].begin_s; };
  // Pieces of one stream run in the order of their numbers, those of two need not.
  if (!std::ranges::is_sorted(order_, {}, begins)) std::ranges::sort(order_, {}, begins);
  double busy = 0, until = 0;
  for (const std::size_t i : order_) {
    const Piece& piece = pieces_[i];
    busy += std::max(0.0, piece.end_s - std::max(piece.begin_s, until)) - piece.waited_s;
    until = std::max(until, piece.end_s);
  }
  return std::max(busy, 0.0);
}

}  // namespace troupe::actors
