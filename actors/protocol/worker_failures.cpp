#include "actors/protocol/worker_failures.h"

#include <utility>

namespace troupe::actors {
namespace {

constexpr double kHour = 3600;

}  // namespace

void WorkerFailures::add(double now_s) {
  times_.push_back(now_s);
  while (times_.front() < now_s - kHour) times_.pop_front();
}

bool WorkerFailures::repeats(const WorkerFailed& failure, std::int64_t reached) {
  const auto before =
      std::exchange(last_, Reported{.message = failure.message, .reached = reached});
  return before && before->message == failure.message && before->reached >= reached;
}

}  // namespace troupe::actors
