#include "actors/worker/stage_actor.h"

#include <spdlog/spdlog.h>

#include <limits>
#include <type_traits>
#include <utility>

#include "actors/messages/message_checks.h"
#include "tensor/errors/error.h"

namespace troupe::actors {

StageActor::StageActor(caf::actor_config& config, const LauncherRefs& launcher, Join join,
                       OrderSink& orders, std::chrono::milliseconds heartbeat)
    : ControlActor(config),
      director_(caf::actor_cast<DirectorRef>(launcher.director)),
      door_(launcher.door),
      join_(std::move(join)),
      orders_(orders),
      heartbeat_(heartbeat) {}

/// A handler of the director's orders. Those of a director before it, in another process, are
/// ignored.
template <typename Order, typename Handler>
auto StageActor::of_director(Handler handler) {
  return [this, handler](const Order& order) {
    if (!current_sender() || current_sender()->node() == director_.node()) handler(order);
  };
}

caf::behavior StageActor::make_behavior() {
  monitor(door_);  // no loss of what is farther away is told
  if (door_.address() != director_.address())
    send(door_, Resident{.incarnation = join_.member.incarnation});
  send(director_, join_);
  delayed_send(this, heartbeat_, Tick{});
  const auto queue_it = [this](const auto& order) { queue(order); };
  return behavior_of<StageRef>(
      {
          of_director<Halt>([this](const auto& order) { halt(order); }),
          of_director<Peers>([this](const auto& order) { meet(order); }),
          of_director<Moves>([this](const auto& order) { take(order); }),
          of_director<BeginConfiguration>([this](const auto& order) { begin(order); }),
          of_director<WarmUp>([this](const auto& order) { warm_up(order); }),
          of_director<RunStep>(queue_it),
          of_director<Commit>(queue_it),
          of_director<Save>(queue_it),
          of_director<Evaluate>(queue_it),
          of_director<Finish>([this](const auto& order) { finish(order.reason); }),
          [this](const NewDirector& order) { turn_to(order); },
      },
      {
          [this](const StageAnswer& result) { answer(result); },
          [this](Tick) { beat(); },
      });
}

void StageActor::on_exit() {
  director_ = nullptr;
  door_ = nullptr;
  replica_ = nullptr;
}

void StageActor::halt(const Halt& order) {
  if (order.configuration <= configuration_) return;
  orders_.interrupt(order.configuration, order.reason);
  held_.halted(order.kept);
  configuration_ = order.configuration;  // orders of the configuration before now come too late
  peers_ = {};
  moves_.clear();
  replica_ = nullptr;
  orders_.push(order);
}

void StageActor::meet(const Peers& order) {
  if (order.configuration < configuration_) return;
  for (const auto& [rank, member] : order.members) peers_.add(rank, member);
}

void StageActor::take(const Moves& order) {
  if (order.configuration < configuration_) return;
  moves_.insert(moves_.end(), order.moves.begin(), order.moves.end());
}

void StageActor::begin(const BeginConfiguration& begin) {
  const auto& [run, number, shape] = begin.configuration;
  if (number < configuration_) return;
  EnterConfiguration order{.configuration = {.run = run,
                                             .number = number,
                                             .shape = shape,
                                             .members = std::exchange(peers_, {})},
                           .start = begin.start};
  order.start.state.moves = std::exchange(moves_, {});
  if (const std::string why = fault_in(order, join_.member.incarnation); !why.empty())
    return refuse(number, "BeginConfiguration with " + why);
  configuration_ = number;
  if (const int rank = order.configuration.rank_of(join_.member.incarnation);
      rank < order.configuration.num_ranks()) {
    replica_ = caf::actor_cast<ReplicaRef>(current_sender());
    held_.enters(begin.configuration, rank);
  }
  orders_.push(std::move(order));
}

void StageActor::refuse(std::uint32_t configuration, const std::string& what) {
  spdlog::warn("refused from the launcher: {}", what);
  send(director_, Failed{.configuration = configuration,
                         .incarnation = join_.member.incarnation,
                         .kind = static_cast<int>(ErrorKind::internal),
                         .message = "refused from the launcher: " + what});
}

void StageActor::warm_up(const WarmUp& order) {
  if (const std::string why = fault_in(order); !why.empty())
    return refuse(configuration_, "WarmUp with " + why);
  const Warm answer{
      .order = order.order, .incarnation = join_.member.incarnation, .rank = order.rank};
  orders_.warm_up(order, [director = director_, answer] { caf::anon_send(director, answer); });
}

template <typename Order>
void StageActor::queue(const Order& order) {
  if (order.configuration != configuration_) return;
  held_.stepped(order.configuration);  // nothing is ordered before all ranks have reached it
  if constexpr (std::is_same_v<Order, Commit>)
    held_.committed({.step = order.step,
                     .loss = order.loss,
                     .grad_norm = order.grad_norm,
                     .targets = order.targets});
  orders_.push(order);
}

/// Obeys another director from now on. The worker goes on with what it was ordered until that lets
/// it halt; nobody waits for its answers.
void StageActor::turn_to(const NewDirector& order) {
  if (current_sender() != caf::actor_cast<caf::strong_actor_ptr>(door_) || order.term <= term_)
    return;
  term_ = order.term;
  join_.token = order.token;
  request(door_, kRequestDeadline, Hello{.token = order.token})
      .then([this](const Welcome& welcome) { rejoin(welcome); },
            [this](const caf::error& error) {
              finish("another director did not welcome this worker: " + system().render(error));
            });
}

void StageActor::rejoin(const Welcome& welcome) {
  spdlog::info("rejoins, at the director of term {}", term_);
  director_ = caf::actor_cast<DirectorRef>(welcome.director);
  replica_ = nullptr;
  peers_ = {};
  moves_.clear();
  send(director_, Rejoin{.token = join_.token,
                         .member = join_.member,
                         .configuration = configuration_,
                         .held = held_.configurations(),
                         .commits = held_.commits()});
}

void StageActor::finish(const std::string& reason) {
  orders_.interrupt(std::numeric_limits<std::uint32_t>::max(), reason);
  orders_.push(Finish{.reason = reason});
}

void StageActor::answer(const StageAnswer& result) {
  // Once a step of a configuration is committed, the status is of this configuration.
  if (const auto* vote = std::get_if<Prepared>(&result);
      vote && std::exchange(voted_, vote->configuration) != vote->configuration)
    tell_activity();
  if (const auto* ready = std::get_if<Ready>(&result)) held_.ready(ready->configuration);
  const auto pass_on = [this]<typename Answer>(const Answer& x) {
    if constexpr (std::is_same_v<Answer, Halted> || std::is_same_v<Answer, Failed>)
      send(director_, x);
    else if (replica_)
      send(replica_, x);
  };
  std::visit(pass_on, result);
}

void StageActor::beat() {
  tell_activity();
  delayed_send(this, heartbeat_, Tick{});
}

void StageActor::tell_activity() {
  Heartbeat beat = orders_.activity();
  beat.mailbox_depth += mailbox().size();
  if (replica_)
    send(replica_, beat);
  else
    send(director_, beat);
}

void StageActor::on_failure(const std::string& what) {
  answer(Failed{.configuration = configuration_,
                .incarnation = join_.member.incarnation,
                .kind = static_cast<int>(ErrorKind::internal),
                .message = what});
}

void StageActor::on_down(const caf::actor_addr&) {
  finish("the launcher is gone");
}

}  // namespace troupe::actors
