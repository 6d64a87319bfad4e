#pragma once

#include <caf/event_based_actor.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "launch/monitors/attachment.h"

namespace troupe::launch {

/// The base class of a monitor in another program: derive from it, define what to do with an event,
/// and spawn it with an open attachment in the program's own actor system:
///
///     auto opened = Attachment::open("runs/first", {.kinds = "step", .who = "my monitor"});
///     system.spawn<MyMonitor>(std::move(std::get<std::unique_ptr<Attachment>>(opened)));
///
/// The virtual functions are called one at a time, from one of the system's threads. While one of
/// them runs nothing is read: a slow monitor misses events and is told how many, without any effect
/// on the run. The actor ends with the run, or earlier if it is sent
/// caf::exit_reason::user_shutdown. launch/examples/monitor is a whole program, built against an
/// installed Troupe.
class MonitorActor : public caf::event_based_actor {
 public:
  MonitorActor(caf::actor_config& config, std::unique_ptr<Attachment> run);
  caf::behavior make_behavior() override;

 protected:
  /// Called for each event, {time, kind, configuration, step, ...}. launch/monitors/README.md lists
  /// the kinds and their fields.
  virtual void on_event(const nlohmann::json& event) = 0;
  /// Called with the number of events that were lost before the next one because this monitor was
  /// busy.
  virtual void on_dropped(std::uint64_t /*events*/) {}
  virtual void on_end(const Ending& /*ending*/) {}
  /// The run's status when the monitor attached.
  const nlohmann::json& status() const { return run_->status(); }

 private:
  void look();

  const std::unique_ptr<Attachment> run_;
};

}  // namespace troupe::launch
