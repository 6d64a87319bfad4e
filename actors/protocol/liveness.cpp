#include "actors/protocol/liveness.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace troupe::actors {
namespace {

/// A worker hangs if an action takes this many times as long as its longest one so far; a worker
/// that has finished none is not judged.
constexpr double kLongestFactor = 8;
constexpr double kTickSeconds = std::chrono::duration<double>(kLivenessTick).count();

}  // namespace

void Liveness::on_heartbeat(const Heartbeat& beat) {
  const auto found = watched_.find(beat.incarnation);
  if (found == watched_.end()) return;
  Watched& worker = found->second;
  worker.silent_s = worker.starved_s = 0;
  // Only computing is judged: a worker that waits names the peer that it waits for.
  const bool computes = beat.state == "running";
  if (!computes || beat.progress != worker.progress || beat.state != worker.state)
    worker.stuck_s = 0;
  worker.progress = beat.progress;
  worker.state = beat.state;
  worker.longest_action_s = beat.longest_action_s;
}

std::vector<std::uint64_t> Liveness::expected() const {
  std::vector<std::uint64_t> all;
  for (const auto& [incarnation, newborn] : expected_) all.push_back(incarnation);
  return all;
}

void Liveness::worked(std::uint64_t incarnation, double cpu_s) {
  const auto found = expected_.find(incarnation);
  if (found == expected_.end()) return;
  if (cpu_s > found->second.cpu_s) found->second.silent_s = 0;
  found->second.cpu_s = cpu_s;
}

/// Processor time counts from the middle of the silence on, because a worker that is stopped may
/// have used some after its last heartbeat.
bool Liveness::is_silent(std::uint64_t incarnation, Watched& worker) const {
  const double half_s = limits_.silent_s / 2, before_s = worker.silent_s;
  worker.silent_s += kTickSeconds;
  if (limits_.silent_s <= 0) return false;
  const bool is_over = worker.silent_s >= limits_.silent_s;
  if (!cpu_seconds_ || (!is_over && (before_s >= half_s || worker.silent_s < half_s)))
    return is_over;
  const double used_s = std::exchange(worker.cpu_s, cpu_seconds_(incarnation));
  if (!is_over) return false;
  if (worker.cpu_s <= used_s || worker.starved_s >= kStarvedDeadline) return true;
  worker.starved_s += half_s;
  worker.silent_s -= half_s;
  return false;
}

std::vector<WorkerFailed> Liveness::tick(double now_s) {
  std::vector<WorkerFailed> verdicts;
  for (auto& [incarnation, worker] : watched_) {
    if (!hears_host(incarnation)) continue;
    const bool silent = is_silent(incarnation, worker);
    worker.stuck_s += kTickSeconds;
    const double hang_s = std::max(limits_.hang_s, kLongestFactor * worker.longest_action_s);
    const double silent_s = worker.silent_s + worker.starved_s;
    if (silent)
      verdicts.push_back({.incarnation = incarnation,
                          .message = fmt::format("silence: no sign of life for {:g} s", silent_s),
                          .now_s = now_s - silent_s});
    else if (limits_.hang_s > 0 && worker.longest_action_s > 0 && worker.state == "running" &&
             worker.stuck_s >= hang_s)
      verdicts.push_back({.incarnation = incarnation,
                          .message = fmt::format("hanging: no action finished for {:g} s", hang_s),
                          .of_gpu = true,
                          .now_s = now_s - worker.stuck_s});
  }
  for (auto& [incarnation, newborn] : expected_) {
    newborn.waited_s += kTickSeconds;
    if (hears_host(incarnation)) newborn.silent_s += kTickSeconds;
    if (limits_.silent_s > 0 && newborn.silent_s >= limits_.silent_s)
      verdicts.push_back(
          {.incarnation = incarnation,
           .message = fmt::format("silence: it has not joined and has done nothing for "
                                  "{:g} s",
                                  limits_.silent_s),
           .now_s = now_s - newborn.silent_s});
    else if (newborn.waited_s >= kJoinDeadline)
      verdicts.push_back(
          {.incarnation = incarnation,
           .message = fmt::format("silence: it has not joined for {:g} s", newborn.waited_s),
           .now_s = now_s - newborn.waited_s});
  }
  for (const WorkerFailed& verdict : verdicts) forget(verdict.incarnation);
  return verdicts;
}

}  // namespace troupe::actors
