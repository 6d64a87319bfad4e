#pragma once

#include <caf/actor_system.hpp>
#include <cstdint>
#include <ctime>
#include <functional>
#include <map>
#include <random>
#include <utility>

#include "actors/agent/processes.h"
#include "actors/messages/control_plane.h"
#include "actors/messages/order_queue.h"
#include "actors/topology/run_spec.h"

namespace troupe::test {

/// Workers without processes: the real stage actor of each worker, around an order loop that
/// answers at once. They live in an actor system of their own and reach the director as workers do,
/// over loopback, so that every message is encoded; but they all share one connection.
class NullWorkers : public actors::Processes {
 public:
  NullWorkers(const actors::RunSpec& spec,
              std::function<void(const actors::WorkerExited&)> on_exit);
  ~NullWorkers() override;

  /// Serves orders until quit().
  void run();
  void spawn(const actors::WorkerBootstrap& bootstrap) override;
  void kill(std::uint64_t incarnation) override;
  void kill_all() override;
  /// The processor time of this process, of which the workers are threads.
  double cpu_seconds(std::uint64_t) const override {
    return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
  }
  void quit();
  /// Kills one of the workers that are there, as SIGKILL does.
  void kill_one(std::mt19937_64& rng);

  /// What code that shares the workers' connection can send messages with.
  struct Line {
    /// The workers' system; any other actor of it is a stranger to the director.
    caf::actor_system& system;  ///< of the workers; an actor of it that is no worker is an outsider
    const caf::actor& director;
    const std::map<std::uint64_t, caf::actor>& workers;  ///< stage actors, by incarnation
  };
  using Talk = std::function<void(const Line&)>;
  /// Sets what is called once the director can be reached and expects all workers, before the first
  /// one joins. Must be set before run().
  void before_first_join(Talk talk) { before_first_join_ = std::move(talk); }
  /// Calls `talk` in the thread of run(), between orders, and returns after it.
  void talk(const Talk& talk);

 private:
  Line line() { return {.system = system_, .director = director_, .workers = workers_}; }
  void start(const actors::WorkerBootstrap& bootstrap);
  void end(std::uint64_t incarnation, bool clean);

  const actors::RunSpec spec_;
  const std::size_t num_parameters_;
  const std::function<void(const actors::WorkerExited&)> on_exit_;
  Talk before_first_join_;
  actors::OrderQueue<std::function<void()>> orders_;  // orders for the thread in run()
  bool quit_ = false;  // used by that thread alone, as the members below are
  actors::ControlPlaneConfig config_{1};
  caf::actor_system system_{config_};
  caf::actor director_;
  std::map<std::uint64_t, caf::actor> workers_;
};

}  // namespace troupe::test
