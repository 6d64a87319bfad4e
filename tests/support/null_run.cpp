#include "tests/support/null_run.h"

#include <utility>

#include "actors/director/checkpoint_actor.h"
#include "tensor/errors/error.h"

namespace troupe::test {
namespace {

using namespace actors;

RunSpec in_folder(RunSpec spec, const std::string& dir) {
  spec.dir = dir;
  return spec;
}

}  // namespace

void Progress::on_step(const StepReport& report) {
  {
    const std::lock_guard lock(mutex_);
    newest_ = report.step;
  }
  changed_.notify_all();
}

void Progress::on_not_saved(std::int64_t, const std::string&) {
  {
    const std::lock_guard lock(mutex_);
    failed_save_ = true;
  }
  changed_.notify_all();
}

void Progress::end(const Outcome& outcome) {
  {
    const std::lock_guard lock(mutex_);
    outcome_ = outcome;
  }
  changed_.notify_all();
}

void Progress::wait_for(std::int64_t step) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return newest_ >= step || outcome_; });
  if (newest_ < step) throw Error(ErrorKind::internal, "the run ended: " + outcome_->reason);
}

std::int64_t Progress::newest() {
  const std::lock_guard lock(mutex_);
  return newest_;
}

void Progress::wait_for_failed_save() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return failed_save_ || outcome_; });
}

Outcome Progress::wait_for_end() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return outcome_.has_value(); });
  return *outcome_;
}

NullRun::NullRun(RunSpec spec, const SpawnDirector& spawn_director)
    : spec_(in_folder(std::move(spec), dir_.path())),
      workers_(spec_,
               [this](const WorkerExited& exit) { caf::anon_send(director_, Event{exit}); }) {
  director_ = spawn_director(system_, {.spec = spec_,
                                       .manifest = "",
                                       .token = kToken,
                                       .checkpoints = system_.spawn<CheckpointActor, caf::detached>(
                                           checkpoint_context(spec_, {}, {})),
                                       .observer = progress_,
                                       .hub = hub_,
                                       .processes = workers_,
                                       .board = board_,
                                       .on_end = [this](const Outcome& outcome) {
                                         progress_.end(outcome);
                                         workers_.quit();
                                       }});
  serving_ = std::thread([this] { workers_.run(); });
}

NullRun::~NullRun() {
  caf::anon_send(director_, Event{StopNowOrdered{.reason = "it is no longer needed"}});
  serving_.join();
}

caf::actor NullRun::spawn_plain(caf::actor_system& system, const DirectorContext& context) {
  return system.spawn<Director>(context);
}

void NullRun::start() {
  caf::anon_send(director_, Event{Started{}});
}

Outcome NullRun::stop(const std::string& reason) {
  caf::anon_send(director_, Event{StopOrdered{.reason = reason}});
  progress_.wait_for_failed_save();
  caf::anon_send(director_, Event{StopNowOrdered{.reason = reason}});
  return progress_.wait_for_end();
}

}  // namespace troupe::test
