#pragma once

#include <caf/actor.hpp>
#include <caf/allowed_unsafe_message_type.hpp>
#include <chrono>
#include <string>

#include "actors/messages/control_plane.h"
#include "actors/messages/interfaces.h"
#include "actors/worker/held_state.h"
#include "actors/worker/order_loop.h"

namespace troupe::actors {

/// Whom a stage joins: the director, and the actor through which its worker came to it, which is
/// the director itself or the agent of the worker's host. The worker ends when the door does. An
/// agent may tell of another director, which alone is obeyed from then on.
struct LauncherRefs {
  caf::actor director;
  caf::actor door;
};

/// A pipeline stage of one replica, in its worker process. Never computes: it passes orders to the
/// compute thread and its answers back, and reports in heartbeats what that thread does. Joins the
/// run when it starts.
class StageActor : public ControlActor {
 public:
  /// `orders` outlives the actor. It joins at the director, and sends a sign of life every
  /// `heartbeat`.
  StageActor(caf::actor_config& config, const LauncherRefs& launcher, Join join, OrderSink& orders,
             std::chrono::milliseconds heartbeat = kHeartbeatInterval);
  caf::behavior make_behavior() override;
  void on_exit() override;

 private:
  template <typename Order, typename Handler>
  auto of_director(Handler handler);
  void halt(const Halt& order);
  /// Adds the members in the message to the peers of the next configuration.
  void meet(const Peers& order);
  /// Adds the moves in the message to those of the next configuration.
  void take(const Moves& order);
  void begin(const BeginConfiguration& order);
  void warm_up(const WarmUp& order);
  template <typename Order>
  void queue(const Order& order);
  void turn_to(const NewDirector& order);
  void rejoin(const Welcome& welcome);
  void finish(const std::string& reason);
  /// Reports an impossible order, which is not carried out, as a failure, so that no actor waits
  /// for its answer.
  void refuse(std::uint32_t configuration, const std::string& what);
  void answer(const StageAnswer& answer);
  void beat();
  void tell_activity();
  void on_failure(const std::string& what) override;
  void on_down(const caf::actor_addr& who) override;

  DirectorRef director_;
  caf::actor door_;
  Join join_;
  OrderSink& orders_;
  const std::chrono::milliseconds heartbeat_;
  ReplicaRef
      replica_;  // the replica actor of the configuration that runs; null between configurations
  std::uint32_t configuration_ = 0;  // orders of other configurations are ignored
  std::uint32_t voted_ = 0;          // the newest configuration of which a step was voted
  Members peers_;                    // the peers in the configuration that is about to begin
  std::vector<StateMove> moves_;     // the moves of that configuration
  HeldState held_;
  std::uint64_t term_ = 0;  // of the director, if an agent has told of it
};

}  // namespace troupe::actors

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::StageAnswer)
