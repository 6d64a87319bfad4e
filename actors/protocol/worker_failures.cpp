#include "actors/protocol/worker_failures.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace troupe::actors {
namespace {

constexpr double kHour = 3600;
/// Within this time failures of a host have one cause.
constexpr double kSameCause = 10;

}  // namespace

void WorkerFailures::add(double now_s, const std::string& host, bool whole_host) {
  if (!host.empty()) {
    const bool is_known = !since_commit_.insert(host).second;
    const auto [last, is_first] = counted_on_.emplace(host, now_s);
    if ((is_known && !whole_host) || (!is_first && now_s - last->second < kSameCause)) return;
    last->second = now_s;
  }
  times_.push_back(now_s);
  while (times_.front() < now_s - kHour) times_.pop_front();
}

void WorkerFailures::lost(std::uint32_t attempt, std::uint32_t newest) {
  if (attempt <= counted_) return;
  ++num_attempts_;
  counted_ = newest;
}

void WorkerFailures::committed(std::uint32_t newest) {
  num_attempts_ = 0;
  counted_ = newest;
  since_commit_.clear();
}

double WorkerFailures::delay_s() const {
  return num_attempts_ == 0 ? 0 : std::exp2(std::min(num_attempts_, 4) - 1);
}

bool WorkerFailures::repeats(const WorkerFailed& failure, std::int64_t reached) {
  const auto before =
      std::exchange(last_, Reported{.message = failure.message, .reached = reached});
  return before && before->message == failure.message && before->reached >= reached;
}

}  // namespace troupe::actors
