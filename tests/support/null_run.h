#pragma once

#include <caf/actor_system.hpp>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "actors/director/director.h"
#include "tests/support/null_workers.h"
#include "tests/support/temp_dir.h"

namespace troupe::test {

/// How far a run has come, for a thread that waits for it.
class Progress : public actors::RunObserver {
 public:
  void on_step(const actors::StepReport& report) override;
  void on_step_again(const actors::StepReport&, const actors::CatchUp&) override {}
  void on_eval(const actors::EvalReport&) override {}
  void on_checkpoint(std::int64_t, const std::string&) override {}
  void on_not_saved(std::int64_t step, const std::string& error) override;
  void on_scaled(const actors::ClusterShape&, bool) override {}
  void on_event(const std::string&) override {}
  void end(const actors::Outcome& outcome);

  /// Waits until the step is committed. Throws Error{internal} if the run ends before.
  void wait_for(std::int64_t step);
  /// The newest step that was committed; a step that is repeated does not count.
  std::int64_t newest();
  /// Waits until a checkpoint could not be written, or the run has ended.
  void wait_for_failed_save();
  actors::Outcome wait_for_end();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::int64_t newest_ = 0;
  bool failed_save_ = false;
  std::optional<actors::Outcome> outcome_;
};

/// A run of the real director and null workers, in this process, with a run directory of its own.
/// The destructor ends it at once.
class NullRun {
 public:
  static constexpr const char* kToken = "token";
  using SpawnDirector =
      std::function<caf::actor(caf::actor_system&, const actors::DirectorContext&)>;

  explicit NullRun(actors::RunSpec spec, const SpawnDirector& spawn_director = spawn_plain);
  NullRun(const NullRun&) = delete;
  ~NullRun();

  /// Starts the run; nothing happens before.
  void start();
  void wait_for(std::int64_t step) { progress_.wait_for(step); }
  std::int64_t newest() { return progress_.newest(); }
  /// Stops the run after the step in progress. What null workers save is no checkpoint, so that the
  /// run is ended at once when it would try that again.
  actors::Outcome stop(const std::string& reason);

  actors::Hub& hub() { return hub_; }
  actors::RunStatus status() const { return board_.read(); }
  NullWorkers& workers() { return workers_; }
  caf::actor_system& system() { return system_; }
  const caf::actor& director() const { return director_; }

 private:
  static caf::actor spawn_plain(caf::actor_system& system, const actors::DirectorContext& context);

  const TempDir dir_;
  const actors::RunSpec spec_;
  Progress progress_;
  actors::Hub hub_;
  actors::StatusBoard board_;
  actors::ControlPlaneConfig config_{2};
  // Ends after the system of the workers, whose connection it would wait for.
  caf::actor_system system_{config_};
  NullWorkers workers_;
  caf::actor director_;
  std::thread serving_;
};

}  // namespace troupe::test
