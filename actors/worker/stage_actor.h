#pragma once

#include <caf/actor.hpp>
#include <caf/allowed_unsafe_message_type.hpp>
#include <chrono>
#include <string>

#include "actors/messages/control_plane.h"
#include "actors/messages/interfaces.h"
#include "actors/worker/order_loop.h"

namespace troupe::actors {

/// A pipeline stage of one replica, in its worker process. Never computes: it hands orders to the
/// runner and answers for it, and reports what the runner does while an action runs. Joins the run
/// by itself when it starts.
class StageActor : public ControlActor {
 public:
  /// `orders` outlives the actor. `director` is where it joins. It gives a sign of life every
  /// `heartbeat`.
  StageActor(caf::actor_config& config, const caf::actor& director, Join join, OrderSink& orders,
             std::chrono::milliseconds heartbeat = kHeartbeatInterval);
  caf::behavior make_behavior() override;
  void on_exit() override;

 private:
  void halt(const Halt& order);
  /// Takes what it is told.
  void meet(const Peers& order);
  void begin(const BeginEpoch& order);
  void warm_up(const WarmUp& order);
  template <typename Order>
  void queue(const Order& order);
  void finish(const std::string& reason);
  /// An order that cannot be is not carried out, and nobody waits for it.
  void refuse(std::uint32_t epoch, const std::string& what);
  void answer(const StageAnswer& answer);
  void beat();
  void on_failure(const std::string& what) override;
  void on_down(const caf::actor_addr& who) override;

  DirectorRef director_;
  const Join join_;
  OrderSink& orders_;
  const std::chrono::milliseconds heartbeat_;
  ReplicaRef replica_;       // in the epoch that runs; else null
  std::uint32_t epoch_ = 0;  // orders of another one are ignored
  Members peers_;            // in the epoch that is about to begin
};

}  // namespace troupe::actors

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::StageAnswer)
