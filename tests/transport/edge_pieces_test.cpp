#include <boost/test/unit_test.hpp>
#include <deque>
#include <set>

#include "tests/contract/bridges.h"
#include "tests/support/expect_error.h"
#include "tests/support/reachable_device.h"
#include "transport/edges/edge_ends.h"
#include "transport/edges/memory_channel.h"

// Edges that carry pieces of tensors: where the pieces lie, what scripted faults do to them, and
// devices that differ from each other. The contract of channels has the rest.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(edge_pieces_test)

namespace {

using namespace std::chrono_literals;
using namespace transport;

/// Two senders, and one receiver, which is rank 2.
struct FanIn {
  explicit FanIn(bool shares_memory = false, int slots = 2)
      : made(bridge(2, 1, 5, slots)), network(3, shares_memory) {
    open_all(*this, 3, made.forward());
  }
  Channel& channel(int rank) { return network.channel(rank); }
  void send(int rank, int microbatch) {
    send_rows(channel(rank), forth(1, microbatch), made.rows_of(rank));
  }
  bool receive(int microbatch) {
    return receive_rows(channel(2), forth(1, microbatch), made.rows_of(2));
  }

  Bridge made;
  MemoryNetwork network;
};

/// The ranks whose values a received tensor has, in the order of its rows.
std::vector<int> origins(Channel& channel, const MessageKey& key) {
  const tensor::Tensor tensor = channel.receive(key);
  std::vector<int> all;
  for (std::int64_t i = 0; i < tensor.num_elements(); ++i) {
    const int origin = static_cast<int>(tensor.as<float>()[i]);
    if (all.empty() || all.back() != origin) all.push_back(origin);
  }
  channel.release(key);
  return all;
}

}  // namespace

/// Megatron's order (bridge_communicator): fan-in concatenates in the order of the replicas.
BOOST_AUTO_TEST_CASE(fan_in_has_the_senders_in_their_order) {
  MemoryNetwork network(6);
  const Bridge made = bridge(4, 2);
  for (int rank = 0; rank < 6; ++rank)
    network.channel(rank).open(
        {.run = kRun, .configuration = 1, .rank = rank, .edges = edges_at(made.forward(), rank)});
  for (const int rank : {3, 1, 2, 0}) {
    const tensor::Tensor buffer = network.channel(rank).acquire(forth(1));
    std::fill_n(buffer.as<float>(), buffer.num_elements(), static_cast<float>(rank));
    network.channel(rank).send(forth(1), buffer);
  }
  BOOST_TEST((origins(network.channel(4), forth(1)) == std::vector{0, 1}));
  BOOST_TEST((origins(network.channel(5), forth(1)) == std::vector{2, 3}));
}

BOOST_AUTO_TEST_CASE(fan_out_splits_among_the_receivers_in_their_order) {
  const Bridge made = bridge(2, 4);
  std::vector<std::pair<int, int>> pairs;
  for (const Edge& edge : made.forward()) pairs.emplace_back(edge.from, edge.to - 2);
  BOOST_TEST((pairs == std::vector<std::pair<int, int>>{{0, 0}, {0, 1}, {1, 2}, {1, 3}}));
  MemoryNetwork network(6);
  for (int rank = 0; rank < 6; ++rank)
    network.channel(rank).open(
        {.run = kRun, .configuration = 1, .rank = rank, .edges = edges_at(made.forward(), rank)});
  for (const int rank : {0, 1}) {
    const tensor::Tensor buffer = network.channel(rank).acquire(forth(1));
    const std::int64_t half = buffer.num_elements() / 2;
    for (const int part : {0, 1})
      std::fill_n(buffer.as<float>() + part * half, half, static_cast<float>(2 * rank + part));
    network.channel(rank).send(forth(1), buffer);
  }
  for (int receiver = 0; receiver < 4; ++receiver)
    BOOST_TEST((origins(network.channel(2 + receiver), forth(1)) == std::vector{receiver}));
}

BOOST_AUTO_TEST_CASE(ends_have_the_tensors_of_their_chunks) {
  const Edge edge{.from = 0,
                  .to = 1,
                  .chunk = 1,
                  .shape = {2, 10},
                  .slots = 3,
                  .sent = {.first_row = 4, .rows = 6},
                  .received = {.first_row = 1, .rows = 9}};
  BOOST_TEST((sent_tensor(edge).shape == tensor::Shape{6, 10}));
  BOOST_TEST(sent_tensor(edge).offset == 160u);
  BOOST_TEST(sent_tensor(edge).stride == 256u);  // 240, in cache lines
  BOOST_TEST((received_tensor(edge).shape == tensor::Shape{9, 10}));
  BOOST_TEST(received_tensor(edge).offset == 40u);
  BOOST_TEST(received_tensor(edge).stride == 384u);
  BOOST_TEST(slots_bytes(edge) == 3 * 384u);
  BOOST_TEST(send_buffers_bytes(edge) == kSendBuffers * 256u);
}

BOOST_AUTO_TEST_CASE(edges_of_one_end_count_once) {
  const auto edges = bridge(4, 2, 64, 3).both_ways();
  BOOST_TEST(receiving_ends(edges, 4).size() == 1u);
  BOOST_TEST(receiving_ends(edges, 4).front().size() == 2u);
  BOOST_TEST(sending_ends(edges, 4).front().size() == 2u);
  const std::size_t tensor = 4 * 64 * sizeof(float);
  BOOST_TEST(slots_bytes(edges, 4) == 3 * tensor);
  BOOST_TEST(send_buffers_bytes(edges, 4) == kSendBuffers * tensor);
  BOOST_TEST(slots_bytes(edges, 0) == 3 * tensor / 2);
  BOOST_TEST(slots_bytes(edges, 6) == 0u);
}

/// Fan-in makes no copy: pieces are computed where the receiver reads them, in one tensor.
BOOST_AUTO_TEST_CASE(a_piece_is_written_where_it_is_read) {
  FanIn world(true);
  std::vector<tensor::Tensor> pieces;
  for (const int rank : {0, 1}) {
    pieces.push_back(world.channel(rank).acquire(forth(1, 0)));
    write_rows(pieces.back(), forth(1, 0), world.made.rows_of(rank));
  }
  const auto memory = world.channel(2).keep(forth(1, 0));
  const tensor::Tensor slot{memory->data(), tensor::DType::f32, {8, 5}};
  BOOST_TEST(has_rows(slot, forth(1, 0), world.made.rows_of(2)));
  for (const int rank : {0, 1})
    world.channel(rank).send(forth(1, 0), pieces[static_cast<std::size_t>(rank)]);
  BOOST_TEST(world.channel(2).receive(forth(1, 0)).data == slot.data);
}

BOOST_AUTO_TEST_CASE(pieces_may_come_in_any_order) {
  FanIn world;
  world.network.block(0, 2);
  for (const int i : {0, 1}) {
    world.send(0, i);
    world.send(1, i);
  }
  Channel& receiver = world.channel(2);
  receiver.set_deadline(5ms);
  expect_error(ErrorKind::unavailable,
               {"waited 0.005 s for activation of step 1, microbatch 0 into chunk 1 from rank 0"},
               [&] { receiver.receive(forth(1, 0)); });
  world.network.delay_next(0, 2);
  world.network.unblock(0, 2);  // the second comes before the first
  for (const int i : {0, 1}) BOOST_TEST(world.receive(i));
}

BOOST_AUTO_TEST_CASE(a_repeated_piece_counts_once) {
  FanIn world;
  for (int i = 0; i < 20; ++i) {
    world.network.duplicate_next(i % 2, 2);
    for (const int rank : {0, 1}) world.send(rank, i);
    BOOST_TEST(world.receive(i));
    BOOST_TEST(world.channel(2).counts().dropped_duplicate == static_cast<std::uint64_t>(i + 1));
  }
  BOOST_TEST(world.channel(2).counts().refused == 0u);
}

/// Slots that were freed out of order are used in that order by all senders, though the credits of
/// one of them come late.
BOOST_AUTO_TEST_CASE(late_credits_keep_their_order) {
  FanIn world(false, 4);
  Channel& receiver = world.channel(2);
  world.network.block(2, 1);
  for (int i = 0; i < 4; ++i)
    for (const int rank : {0, 1}) world.send(rank, i);
  for (int i = 0; i < 4; ++i)
    BOOST_TEST(has_rows(receiver.receive(forth(1, i)), forth(1, i), world.made.rows_of(2)));
  for (const int i : {2, 0, 3, 1}) receiver.release(forth(1, i));
  for (const int i : {4, 5}) world.send(0, i);
  for (const int i : {4, 5}) world.send(1, i);
  world.network.unblock(2, 1);
  for (const int i : {4, 5}) BOOST_TEST(world.receive(i));
  BOOST_TEST(receiver.counts().refused == 0u);
}

namespace {

/// A fan-in between ranks with devices, which may lack something.
struct DeviceFanIn {
  std::deque<ReachableDevice> devices{3};
  MemoryNetwork network{3, true};
  const Bridge made = bridge(2, 1, 300, 2);

  bool exchange(EdgeChoice choice) {
    for (int rank = 0; rank < 3; ++rank)
      network.channel(rank).open({.run = kRun,
                                  .configuration = 1,
                                  .rank = rank,
                                  .edges = edges_at(made.forward(), rank),
                                  .device = &devices[static_cast<std::size_t>(rank)],
                                  .choice = choice});
    bool ok = true;
    for (int i = 0; i < 10; ++i) {
      for (const int rank : {0, 1})
        send_rows(network.channel(rank), forth(1, i), made.rows_of(rank));
      ok = receive_rows(network.channel(2), forth(1, i), made.rows_of(2)) && ok;
    }
    return ok;
  }
  std::vector<EdgePlacement> placements() {
    std::vector<EdgePlacement> all;
    for (const auto& [peer, placement] : network.channel(2).counts().placements)
      all.push_back(placement);
    return all;
  }
};

}  // namespace

BOOST_AUTO_TEST_CASE(senders_of_one_tensor_may_differ_in_what_they_can) {
  using enum EdgePlacement;
  const std::vector<std::pair<std::vector<int>, std::vector<EdgePlacement>>> cases{
      {{}, {peer, peer}}, {{1}, {peer, staged}}, {{0}, {staged, peer}}, {{0, 1}, {staged, staged}}};
  for (const auto& [lacking, expected] : cases) {
    DeviceFanIn world;
    for (const int rank : lacking) world.devices[static_cast<std::size_t>(rank)].can_map = false;
    BOOST_TEST(world.exchange(EdgeChoice::automatic));
    BOOST_TEST((world.placements() == expected));
  }
}

/// Messages that arrive in the host's memory share it, too.
BOOST_AUTO_TEST_CASE(staged_pieces_take_no_more_memory_than_one_tensor) {
  for (const bool maps : {true, false}) {
    DeviceFanIn world;
    for (const int rank : {0, 1}) world.devices[static_cast<std::size_t>(rank)].can_map = maps;
    BOOST_TEST(world.exchange(maps ? EdgeChoice::staged : EdgeChoice::automatic));
    BOOST_TEST(world.network.channel(2).counts().buffer_bytes ==
               2 * slots_bytes(edges_at(world.made.forward(), 2), 2));
  }
}

BOOST_AUTO_TEST_CASE(pieces_travel_where_a_sender_cannot_pin_memory) {
  for (const std::size_t lacking : {0, 1, 2}) {
    DeviceFanIn world;
    world.devices[lacking].can_pin = false;
    BOOST_TEST(world.exchange(EdgeChoice::staged));
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
