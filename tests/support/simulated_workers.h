#pragma once

#include <cstdint>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "actors/protocol/protocol_events.h"
#include "tests/support/simulated_messages.h"
#include "tests/support/simulated_worker.h"

namespace troupe::actors {

/// Number of message lines to workers; the lines of their answers are negative.
inline constexpr std::uint64_t kWays = 1'000'003;

/// The workers of a simulated cluster, what is sent to them, and what they answer.
class SimWorkers : protected SimMessages {
 public:
  virtual ~SimWorkers() = default;

 protected:
  explicit SimWorkers(std::uint64_t seed) : SimMessages(seed) {}
  /// Lets the director learn of an event.
  virtual void feed(const Event& event) = 0;

  double now() { return clock_ += 0.01; }

  SimWorker* alive(std::uint64_t incarnation) {
    const auto found = workers_.find(incarnation);
    return found == workers_.end() ? nullptr : &found->second;
  }
  /// Lets a worker act, after all that was sent to it before.
  template <typename Action>
  void tell(std::uint64_t incarnation, Action action) {
    if (!alive(incarnation)) return;
    later(static_cast<int>(incarnation % kWays), [this, incarnation, action] {
      if (SimWorker* worker = alive(incarnation)) action(*worker);
    });
  }
  /// Sends an event to the director on one of three lines. Some events are sent twice, and the
  /// second may come much later.
  void answer(const Event& event) {
    for (int times = pick(16) == 0 ? 2 : 1; times > 0; --times)
      later(-1 - pick(3), [this, event] { feed(event); });
  }

  void die(std::uint64_t incarnation, bool by_signal, bool is_told = true) {
    const SimWorker* dead = alive(incarnation);
    if (!dead) return;
    for (const auto& [peer, node] : dead->peers)
      if (SimWorker* worker = alive(peer);
          worker && worker->node == node && by_signal && !dead->quiet)
        worker->spoilt = true;
    workers_.erase(incarnation);
    if (is_told)
      answer(WorkerExited{.incarnation = incarnation, .cause = "signal 9", .now_s = now()});
  }
  void kill_workers(const std::string& host, bool is_told) {
    std::vector<std::uint64_t> dead;
    for (const auto& [incarnation, worker] : workers_)
      if (worker.host == host) dead.push_back(incarnation);
    for (const std::uint64_t worker : dead) die(worker, true, is_told && pick(2) == 0);
  }

  std::map<std::uint64_t, SimWorker> workers_;

 private:
  double clock_ = 0;
};

}  // namespace troupe::actors
