#include <tuple>

#include "tests/transport/ucx/chosen_transports.h"
#include "tests/transport/ucx/group_members.h"
#include "tests/transport/ucx/ucx_nodes.h"

namespace troupe::test {

class UcxWorld {
 public:
  UcxWorld(int ranks, const char* transports, std::chrono::microseconds spin,
           const transport::UcxNetwork& network = {}, int ranks_of_host = 0)
      : transports_(transports),
        network_(network),
        nodes(ranks, {.spin = spin, .environment = network_.environment}, ranks_of_host) {}
  transport::Channel& channel(int rank) { return nodes.channel(rank); }
  void disconnect(int rank) {
    nodes.kill(rank);
    nodes.node(0).disconnect(rank);
  }
  void restart(int rank) { nodes.restart(rank, ++incarnation_); }

 private:
  ChosenTransports transports_;
  ChosenNetwork network_;

 public:
  UcxNodes nodes;

 private:
  std::uint64_t incarnation_ = 1;
};

/// Ranks whose senders map the slots and whose waiting threads poll.
struct SharedMemoryWorld : UcxWorld {
  explicit SharedMemoryWorld(int ranks)
      : UcxWorld(ranks, "shm,self", std::chrono::microseconds(50)) {}
};
/// Ranks whose senders map the slots and whose waiting threads sleep at once.
struct SleepingWorld : UcxWorld {
  explicit SleepingWorld(int ranks) : UcxWorld(ranks, "shm,self", std::chrono::microseconds(0)) {}
};
/// Ranks whose payloads travel, eager and by rendezvous.
struct TcpWorld : UcxWorld {
  explicit TcpWorld(int ranks) : UcxWorld(ranks, "tcp,self", std::chrono::microseconds(50)) {}
};

/// Ranks that connect as those of several hosts do, each on its own.
struct HostsWorld : UcxWorld {
  explicit HostsWorld(int ranks)
      : UcxWorld(ranks, "tcp,self", std::chrono::microseconds(50),
                 {.interface = "127.0.0.1", .ports = ""}, 1) {}
};

using Worlds = std::tuple<SharedMemoryWorld, SleepingWorld, TcpWorld, HostsWorld>;

}  // namespace troupe::test

#include "tests/contract/channel_contract.h"
#include "tests/contract/channel_contract_of_configurations.h"
#include "tests/contract/channel_events_contract.h"
#include "tests/contract/channel_pieces_contract.h"
#include "tests/contract/channel_pieces_rules_contract.h"

namespace troupe::test {

BOOST_AUTO_TEST_CASE_TEMPLATE(kept_slots_stay_as_they_are_until_they_are_freed, World, Worlds) {
  World world(2);
  const auto edges = two_way({64}, 2);
  open_both(world, edges);
  for (int i = 0; i < 2; ++i) send_message(world.channel(0), forth(1, i));
  std::vector<tensor::Tensor> old;
  for (int i = 0; i < 2; ++i) old.push_back(world.channel(1).receive(forth(1, i)));
  auto memory = world.channel(1).keep(forth(1));
  world.channel(0).flush();
  world.channel(0).open({.run = kRun, .configuration = 2, .rank = 0, .edges = edges});
  world.channel(1).open({.run = kRun,
                         .configuration = 2,
                         .rank = 1,
                         .edges = edges,
                         .kept = {{.chunk = 1, .memory = memory}}});
  send_message(world.channel(1), back(1));
  BOOST_TEST(receive_message(world.channel(0), back(1)));  // it comes after the grant
  send_message(world.channel(0), forth(2));
  BOOST_TEST(world.channel(0).counts().edges.front().queued == 1);
  for (int i = 0; i < 2; ++i)
    BOOST_TEST(holds_message(old[static_cast<std::size_t>(i)], forth(1, i)));
  world.channel(1).free_kept(forth(1));
  const tensor::Tensor message = world.channel(1).receive(forth(2));
  BOOST_TEST(holds_message(message, forth(2)));
  BOOST_TEST((message.data == old[0].data || message.data == old[1].data));
}

/// One writes into the slots, and the other's payloads travel into them.
BOOST_AUTO_TEST_CASE(senders_of_one_tensor_may_be_on_different_hosts) {
  const Bridge made = bridge(2, 1, 3000, 2);
  UcxWorld world(3, "shm,tcp,self", std::chrono::microseconds(50), {}, 2);
  // The first rank receives, beside the second.
  std::vector<Edge> edges = made.forward();
  for (Edge& edge : edges) edge.from += 1, edge.to = 0;
  open_all(world, 3, edges);
  for (int i = 0; i < 20; ++i) {
    for (const int rank : {2, 1})
      send_rows(world.channel(rank), forth(1, i), made.rows_of(rank - 1));
    BOOST_TEST(receive_rows(world.channel(0), forth(1, i), made.rows_of(2)));
  }
}

/// UCX 1.13 ends a process whose peer closes its socket as it accepts: see UcxPeers.
BOOST_AUTO_TEST_CASE(ranks_may_end_while_they_connect) {
  for (int i = 0; i < 100; ++i) {
    TcpWorld world(2);
    if (i % 2 == 0) open_both(world, two_way({64}, 1));
  }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_collective_is_waited_for_beside_messages, World, Worlds) {
  World world(2);
  open_both(world, two_way({64}, 1));
  std::vector<std::unique_ptr<tensor::ProcessGroup>> groups;
  for (int rank = 0; rank < 2; ++rank)
    groups.push_back(world.nodes.node(rank).make_group(kRun, 1, 5, "shards", {0, 1}, rank));
  const MemberStream stream;
  Channel& channel = world.channel(1);
  const Needs message{.message = forth(0), .buffer = {}};
  // Large enough that the progress thread has copies and sums to do.
  std::vector<float> mine(100'000, 1), other(100'000, 2);
  auto work = groups[1]->all_reduce(stream, view(mine));
  const Needs sum{.message = {}, .buffer = {}, .collective = work.get()};
  BOOST_TEST(!channel.ready(sum));
  channel.set_deadline(20ms);
  expect_error(ErrorKind::unavailable,
               {"waited 0.02 s for all-reduce 0 of group \"shards\", missing rank 0"},
               [&] { channel.wait_for_either(sum, message); });
  channel.set_deadline(0ms);

  auto sender = runner([&] { send_message(world.channel(0), forth(0)); });
  channel.wait_for_either(sum, message);
  BOOST_TEST(channel.ready(message));
  BOOST_TEST(!channel.ready(sum));
  sender.get();
  BOOST_TEST(receive_message(channel, forth(0)));

  const Needs never{.message = forth(1), .buffer = {}};
  auto member = runner([&] { groups[0]->all_reduce(MemberStream(), view(other))->wait(); });
  channel.wait_for_either(sum, never);
  BOOST_TEST(channel.ready(sum));
  member.get();
  work->wait();
  BOOST_TEST(mine == other);

  // What ends the group or the channel ends the wait.
  work = groups[1]->barrier(stream);
  const Needs barrier{.message = {}, .buffer = {}, .collective = work.get()};
  auto abort = runner([&] { groups[1]->abort("the test says so"); });
  channel.wait_for_either(barrier, never);
  expect_error(ErrorKind::unavailable, {"the test says so"}, [&] { work->wait(); });
  abort.get();
  auto closer = runner([&] { channel.close("the test is over"); });
  expect_error(ErrorKind::unavailable, {"the test is over"},
               [&] { channel.wait_for_either(never, never); });
  closer.get();
}

BOOST_AUTO_TEST_CASE(an_unusable_address_is_refused) {
  UcxNodes nodes(1);
  expect_error(ErrorKind::unavailable, {"rank 5", "0 bytes"},
               [&] { nodes.node(0).connect(5, 1, ""); });
  expect_error(ErrorKind::unavailable, {"rank 5", "5000 bytes"},
               [&] { nodes.node(0).connect(5, 1, std::string(5000, 'x')); });
}

BOOST_AUTO_TEST_CASE(an_address_is_short) {
  UcxNodes nodes(1);
  const std::size_t bytes = nodes.node(0).address().size();
  BOOST_TEST(bytes > 0u);
  BOOST_TEST(bytes <= 4096u);
}

BOOST_AUTO_TEST_CASE(unknown_transports_are_named) {
  const ChosenTransports none("no_such_transport");
  expect_error(ErrorKind::unavailable, {"UCX"},
               [] { transport::UcxNode::create({.environment = transport::prepare_ucx()}); });
}

BOOST_AUTO_TEST_CASE(a_peer_without_connection_is_named) {
  UcxNodes nodes(1);
  nodes.channel(0).open({.run = kRun, .configuration = 1, .rank = 0, .edges = two_way({10}, 1)});
  expect_error(ErrorKind::unavailable, {"rank 1"}, [&] { nodes.channel(0).receive(back(1)); });
}

BOOST_AUTO_TEST_CASE(a_node_may_end_while_payloads_arrive) {
  const ChosenTransports chosen("tcp,self");
  constexpr int kMessages = 4;
  for (int round = 0; round < 10; ++round) {
    UcxNodes nodes(2);
    for (int rank = 0; rank < 2; ++rank)
      nodes.channel(rank).open(
          {.run = kRun, .configuration = 1, .rank = rank, .edges = two_way({1 << 19}, kMessages)});
    for (int i = 0; i < kMessages; ++i) send_message(nodes.channel(0), forth(1, i));
    BOOST_TEST(receive_message(nodes.channel(1), forth(1)));
    nodes.kill(1);  // the other messages are on their way, straight into its slots
    nodes.node(0).disconnect(1);
  }
}

}  // namespace troupe::test
