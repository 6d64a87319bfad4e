#pragma once

#include <caf/event_based_actor.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "launch/monitors/attachment.h"

namespace troupe::launch {

/// A monitor of one's own: derive from it, say what to do with an event, and spawn it in an actor
/// system of one's own with an open attachment:
///
///     auto opened = Attachment::open("runs/first", {.kinds = "step", .who = "my monitor"});
///     system.spawn<MyMonitor>(std::move(std::get<std::unique_ptr<Attachment>>(opened)));
///
/// The calls below come one at a time, from one of the system's threads. While one of them runs
/// nothing is read: a slow monitor misses events, is told how many, and the run does not notice.
/// The actor ends with the run, and before that when it is sent caf::exit_reason::user_shutdown.
/// launch/examples/loss_monitor.cpp is a whole program.
class MonitorActor : public caf::event_based_actor {
 public:
  MonitorActor(caf::actor_config& config, std::unique_ptr<Attachment> run);
  caf::behavior make_behavior() override;

 protected:
  /// {time, kind, epoch, step, ...}; launch/README.md lists the kinds and their fields.
  virtual void on_event(const nlohmann::json& event) = 0;
  /// Events that were lost before the next one, because this monitor was busy.
  virtual void on_dropped(std::uint64_t /*events*/) {}
  virtual void on_end(const Ending& /*ending*/) {}
  /// The run's status when the monitor attached.
  const nlohmann::json& status() const { return run_->status(); }

 private:
  void look();

  const std::unique_ptr<Attachment> run_;
};

}  // namespace troupe::launch
