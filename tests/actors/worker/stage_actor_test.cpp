#include "actors/worker/stage_actor.h"

#include <boost/test/unit_test.hpp>
#include <caf/io/middleman.hpp>
#include <caf/scoped_actor.hpp>

#include "actors/messages/order_queue.h"

// Tests whom a stage obeys when its agent tells it of another director: each is a process of its
// own, here an actor system.

namespace troupe::actors {

BOOST_AUTO_TEST_SUITE(stage_actor_test)

namespace {

/// What a process is to the control plane.
struct Process {
  ControlPlaneConfig config{1};
  caf::actor_system system{config};
  caf::scoped_actor self{system};

  int publish() {
    return *system.middleman().publish(caf::actor_cast<caf::actor>(self), 0, "127.0.0.1");
  }
};

/// A compute thread that notes the numbers of the configurations for which it is to halt.
class Orders : public OrderSink {
 public:
  void push(StageOrder order) override {
    if (const auto* halt = std::get_if<Halt>(&order)) halts_.push(halt->configuration);
    if (std::holds_alternative<Finish>(order)) halts_.push(0);
  }
  void interrupt(std::uint32_t, const std::string&) override {}
  void warm_up(const WarmUp&, const std::function<void()>&) override {}
  Heartbeat activity() const override { return {}; }
  /// The next such number; 0 at the end.
  std::uint32_t next() { return halts_.pop(); }

 private:
  OrderQueue<std::uint32_t> halts_;
};

/// A worker whose director and whose door are other processes.
struct Worker {
  Worker() {
    const auto at = [&](Process& process) {
      return *here.system.middleman().remote_actor("127.0.0.1",
                                                   static_cast<std::uint16_t>(process.publish()));
    };
    const LauncherRefs refs{.director = at(director), .door = at(door)};
    stage = caf::actor_cast<caf::actor>(
        here.system.spawn<StageActor>(refs, Join{.token = "old", .member = {.incarnation = 7}},
                                      std::ref<OrderSink>(orders), std::chrono::hours(1)));
    director.self->receive([&](const Join&) {
      of_director = caf::actor_cast<StageRef>(director.self->current_sender());
    });
    door.self->receive([&](const Resident& resident) {
      BOOST_TEST(resident.incarnation == 7u);
      of_door = caf::actor_cast<StageRef>(door.self->current_sender());
    });
  }
  ~Worker() {  // as its process does at its end
    here.self->send_exit(stage, caf::exit_reason::user_shutdown);
    here.self->wait_for(stage);
  }

  /// The agent tells of another director, which is the agent's own process here.
  Rejoin turn(std::uint64_t term) {
    Rejoin told;
    door.self->send(of_door, NewDirector{.term = term, .token = "new"});
    door.self->receive([&](const Hello& hello) {
      BOOST_TEST(hello.token == "new");
      return Welcome{.manifest = "", .director = caf::actor_cast<caf::actor>(door.self)};
    });
    door.self->receive([&](const Rejoin& rejoin) { told = rejoin; });
    return told;
  }
  /// Returns once the stage has handled what this process has sent.
  static void wait_for(Process& process, const StageRef& stage) {
    // A stage knows no such message, and says so.
    process.self->request(caf::actor_cast<caf::actor>(stage), caf::infinite, AskAgent{})
        .receive([] { BOOST_ERROR("it has answered"); }, [](const caf::error&) {});
  }

  Orders orders;
  Process here, director, door;
  caf::actor stage;
  StageRef of_director, of_door;
};

}  // namespace

BOOST_AUTO_TEST_CASE(the_director_of_the_highest_term_alone_is_obeyed) {
  Worker worker;
  worker.director.self->send(worker.of_director, Halt{.configuration = 1});
  BOOST_TEST(worker.orders.next() == 1u);
  const Rejoin told = worker.turn(2);
  BOOST_TEST((told.token == "new" && told.member.incarnation == 7u && told.configuration == 1u));
  BOOST_TEST(told.held.empty());
  worker.director.self->send(worker.of_director, Halt{.configuration = 9});
  worker.director.self->send(worker.of_director, Finish{});
  Worker::wait_for(worker.director, worker.of_director);
  worker.door.self->send(worker.of_door, Halt{.configuration = 2});
  BOOST_TEST(worker.orders.next() == 2u);
  // Another one may come, of a higher term.
  worker.door.self->send(worker.of_door, NewDirector{.term = 2, .token = "late"});
  BOOST_TEST(worker.turn(3).configuration == 2u);
}

BOOST_AUTO_TEST_CASE(nobody_but_the_agent_tells_of_directors) {
  Worker worker;
  worker.director.self->send(worker.of_director, NewDirector{.term = 5, .token = "mine"});
  Worker::wait_for(worker.director, worker.of_director);
  worker.director.self->send(worker.of_director, Halt{.configuration = 1});
  BOOST_TEST(worker.orders.next() == 1u);
  BOOST_TEST(worker.turn(2).configuration == 1u);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::actors
