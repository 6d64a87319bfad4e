#pragma once

#include <algorithm>
#include <boost/test/data/monomorphic.hpp>
#include <boost/test/unit_test.hpp>
#include <cstring>
#include <future>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tensor/errors/error.h"
#include "tests/contract/messages.h"
#include "tests/support/expect_error.h"
#include "tests/support/seed.h"

// Tests of what every Channel promises. A test file defines `Worlds`, a tuple of types, in
// namespace troupe::test before it includes this header. A world has
//   explicit World(int ranks)           connected channels of that many ranks
//   Channel& channel(int rank)
//   void disconnect(int rank)           the rank has died, and its peers' supervisor knows
//   void restart(int rank)              a new life of the rank, connected to all others

namespace troupe::test {

using namespace std::chrono_literals;

template <typename World>
void open_both(World& world, const std::vector<Edge>& edges, std::uint32_t configuration = 1) {
  for (int rank = 0; rank < 2; ++rank)
    world.channel(rank).open(
        {.run = kRun, .configuration = configuration, .rank = rank, .edges = edges});
}

BOOST_AUTO_TEST_SUITE(channel_contract)

BOOST_AUTO_TEST_CASE_TEMPLATE(messages_are_found_in_any_order, World, Worlds) {
  World world(2);
  open_both(world, two_way({64}, 4));
  std::vector<int> order{0, 1, 2, 3};
  std::uint64_t step = 0;
  do {
    for (int microbatch = 0; microbatch < 4; ++microbatch)
      send_message(world.channel(0), forth(step, microbatch));
    for (const int microbatch : order)
      BOOST_TEST(receive_message(world.channel(1), forth(step, microbatch)));
    ++step;
  } while (std::next_permutation(order.begin(), order.end()));
  BOOST_TEST(step == 24u);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(every_size_arrives_whole, World, Worlds) {
  World world(2);
  std::uint32_t configuration = 0;
  // One element, around UCX's short and buffered messages, around the rendezvous threshold of
  // 32 KiB, and as large as stages send.
  for (const std::int64_t elements :
       {1, 15, 16, 2040, 2070, 8191, 8192, 8193, 65536, 262147, 1 << 20}) {
    open_both(world, two_way({elements}, 2), ++configuration);
    for (std::uint64_t step = 0; step < 5; ++step) {
      send_message(world.channel(0), forth(step));
      BOOST_TEST(receive_message(world.channel(1), forth(step)), elements << " elements");
    }
  }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_sender_stops_when_slots_and_buffers_are_used, World, Worlds) {
  World world(2);
  open_both(world, two_way({256}, 2));
  Channel& sender = world.channel(0);
  for (int microbatch = 0; microbatch < 2 + transport::kSendBuffers; ++microbatch)
    send_message(sender, forth(1, microbatch));
  sender.set_deadline(20ms);
  expect_error(ErrorKind::unavailable,
               {"waited 0.02 s for credit for activation of step 1, microbatch 9 into chunk 1 from "
                "rank 1"},
               [&] { sender.acquire(forth(1, 9)); });
  sender.set_deadline(0ms);
  for (int microbatch = 0; microbatch < 2 + transport::kSendBuffers; ++microbatch)
    BOOST_TEST(receive_message(world.channel(1), forth(1, microbatch)));
  send_message(sender, forth(1, 9));
  BOOST_TEST(receive_message(world.channel(1), forth(1, 9)));
}

BOOST_AUTO_TEST_CASE_TEMPLATE(what_an_action_needs_is_ready_or_waited_for, World, Worlds) {
  World world(2);
  open_both(world, two_way({256}, 1));
  auto& channel = world.channel(1);
  const Needs nothing{}, input{.message = forth(0, 0), .buffer = {}},
      output{.message = {}, .buffer = back(0, 0)},
      both{.message = forth(0, 1), .buffer = back(0, 1)};
  BOOST_TEST(channel.ready(nothing));
  BOOST_TEST(channel.ready(output));
  BOOST_TEST(!channel.ready(both));
  send_message(world.channel(0), forth(0, 0));
  channel.wait_for_either(both, input);
  BOOST_TEST(channel.ready(input));
  BOOST_TEST(!channel.ready(both));
  BOOST_TEST(receive_message(channel, forth(0, 0)));
  // With one slot and two buffers, the fourth message has no buffer until the first is received.
  for (int microbatch = 0; microbatch < 3; ++microbatch) send_message(channel, back(0, microbatch));
  const Needs fourth{.message = {}, .buffer = back(0, 3)};
  BOOST_TEST(!channel.ready(fourth));
  BOOST_TEST(receive_message(world.channel(0), back(0, 0)));
  auto other = std::async(std::launch::async, [&] {
    // A thread that waits returns its credits.
    return receive_message(world.channel(0), back(0, 1));
  });
  channel.wait_for_either(both, fourth);
  BOOST_TEST(channel.ready(fourth));
  BOOST_TEST(other.get());
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_held_message_stays_as_it_is, World, Worlds) {
  World world(2);
  open_both(world, two_way({5000}, 2));
  constexpr int kMessages = 40;
  auto sender = runner([&] {
    for (int i = 0; i < kMessages; ++i) send_message(world.channel(0), forth(3, i));
  });
  Channel& receiver = world.channel(1);
  const tensor::Tensor first = receiver.receive(forth(3, 0));
  // The other slot is still used, because credits are per slot and in any order.
  for (int i = 1; i < kMessages; ++i) BOOST_TEST(receive_message(receiver, forth(3, i)));
  sender.get();
  BOOST_TEST(holds_message(first, forth(3, 0)));
  receiver.release(forth(3, 0));
}

BOOST_AUTO_TEST_CASE_TEMPLATE(both_directions_share_the_connection, World, Worlds) {
  for (int slots = 1; slots <= 5; ++slots) {
    World world(2);
    open_both(world, two_way({300}, slots));
    auto other = runner([&] {
      bool ok = true;
      for (std::uint64_t step = 0; step < 60; ++step) {
        ok = receive_message(world.channel(1), forth(step)) && ok;
        send_message(world.channel(1), back(step));
      }
      return ok;
    });
    for (std::uint64_t step = 0; step < 60; ++step) {
      send_message(world.channel(0), forth(step));
      BOOST_TEST(receive_message(world.channel(0), back(step)));
    }
    BOOST_TEST(other.get());
  }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(random_orders_lose_nothing, World, Worlds) {
  std::mt19937_64 random(fresh_seed());
  for (int round = 0; round < 10; ++round) {
    World world(2);
    const int slots = 1 + static_cast<int>(random() % 6);
    const int messages = 30;
    open_both(world, two_way({1 + static_cast<std::int64_t>(random() % 20000)}, slots));
    std::vector<int> order(messages);
    std::iota(order.begin(), order.end(), 0);
    // The receiver asks for the messages in another order, but never for one that the slots do not
    // let through.
    for (int i = 0; i + 1 < messages; ++i)
      std::swap(order[static_cast<std::size_t>(i)],
                order[static_cast<std::size_t>(i) +
                      random() % static_cast<unsigned>(std::min(slots, messages - i))]);
    std::vector<int> sent = order;
    for (int i = 0; i + slots <= messages; i += slots)
      std::shuffle(sent.begin() + i, sent.begin() + i + slots, random);
    auto sender = runner([&] {
      for (const int i : sent) send_message(world.channel(0), forth(1, i));
      world.channel(0).flush();
    });
    for (int i = 0; i + slots <= messages; i += slots)
      for (int j = i; j < i + slots; ++j)
        BOOST_TEST(receive_message(world.channel(1), forth(1, order[static_cast<std::size_t>(j)])));
    for (int i = messages / slots * slots; i < messages; ++i)
      BOOST_TEST(receive_message(world.channel(1), forth(1, sent[static_cast<std::size_t>(i)])));
    sender.get();
  }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(an_edge_to_itself_hands_the_buffer_over, World, Worlds) {
  World world(1);
  const Edge edge{.from = 0, .to = 0, .chunk = 1, .shape = {100}, .slots = 2};
  Channel& channel = world.channel(0);
  channel.open({.run = kRun, .configuration = 1, .rank = 0, .edges = {edge}});
  for (std::uint64_t step = 0; step < 10; ++step) {
    std::vector<void*> sent;
    for (int microbatch = 0; microbatch < 2; ++microbatch) {
      const tensor::Tensor buffer = channel.acquire(forth(step, microbatch));
      sent.push_back(buffer.data);
      channel.send(forth(step, microbatch), buffer);
    }
    for (int microbatch = 1; microbatch >= 0; --microbatch) {
      const tensor::Tensor tensor = channel.receive(forth(step, microbatch));
      BOOST_TEST(tensor.data == sent[static_cast<std::size_t>(microbatch)]);
      channel.release(forth(step, microbatch));
    }
  }
  channel.flush();
  BOOST_TEST(channel.counts().edges.empty());
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_wait_has_a_name_and_a_deadline, World, Worlds) {
  World world(2);
  open_both(world, two_way({10}, 1));
  Channel& channel = world.channel(1);
  BOOST_TEST(!channel.waiting().has_value());
  auto waiter = runner([&] { return receive_message(channel, forth(7, 3)); });
  until([&] {
    return waits_for(channel, "activation of step 7, microbatch 3 into chunk 1 from rank 0");
  });
  send_message(world.channel(0), forth(7, 3));
  BOOST_TEST(waiter.get());
  BOOST_TEST(!channel.waiting().has_value());

  // In the next configuration the peer's process has another rank than its number here.
  const auto edges = two_way({10}, 1);
  world.channel(0).open({.run = kRun, .configuration = 2, .rank = 0, .edges = edges});
  channel.open(
      {.run = kRun, .configuration = 2, .rank = 1, .edges = edges, .ranks = {{0, 5}, {1, 0}}});
  waiter = runner([&] { return receive_message(channel, forth(7, 3)); });
  until([&] {
    return waits_for(channel, "activation of step 7, microbatch 3 into chunk 1 from rank 5");
  });
  send_message(world.channel(0), forth(7, 3));
  BOOST_TEST(waiter.get());
  channel.open({.run = kRun, .configuration = 3, .rank = 1, .edges = edges});
  world.channel(0).open({.run = kRun, .configuration = 3, .rank = 0, .edges = edges});

  channel.set_deadline(30ms);
  expect_error(ErrorKind::unavailable,
               {"waited 0.03 s for activation of step 7, microbatch 4 into chunk 1 from rank 0"},
               [&] { channel.receive(forth(7, 4)); });
  BOOST_TEST(!channel.waiting().has_value());
  world.channel(0).set_deadline(5ms);
  expect_error(ErrorKind::unavailable,
               {"waited 0.005 s for gradient of step 8, microbatch 0 into chunk 0 from rank 1"},
               [&] { world.channel(0).receive(back(8)); });
}

BOOST_AUTO_TEST_CASE_TEMPLATE(close_wakes_a_receiver_and_a_sender, World, Worlds) {
  World world(2);
  open_both(world, two_way({10}, 1));
  for (int i = 0; i < 1 + transport::kSendBuffers; ++i) send_message(world.channel(0), forth(1, i));
  auto sender = runner([&] { world.channel(0).acquire(forth(1, 8)); });
  auto receiver = runner([&] { world.channel(1).receive(forth(1, 9)); });
  until([&] { return waits_for(world.channel(0), "credit"); });
  until([&] { return waits_for(world.channel(1), "microbatch 9"); });
  for (int rank = 0; rank < 2; ++rank) {
    world.channel(rank).close("rank 3 was killed");
    world.channel(rank).close("a later reason");
  }
  expect_error(ErrorKind::unavailable, {"rank 3 was killed"}, [&] { sender.get(); });
  expect_error(ErrorKind::unavailable, {"rank 3 was killed"}, [&] { receiver.get(); });
  expect_error(ErrorKind::unavailable, {"rank 3 was killed"},
               [&] { world.channel(1).release(forth(1)); });
  expect_error(ErrorKind::unavailable, {"rank 3 was killed"}, [&] { world.channel(0).flush(); });

  open_both(world, two_way({10}, 1), 2);
  send_message(world.channel(0), forth(2));
  BOOST_TEST(receive_message(world.channel(1), forth(2)));
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_channel_must_be_opened, World, Worlds) {
  World world(2);
  expect_error(ErrorKind::unavailable, {"not opened"}, [&] { world.channel(0).flush(); });
}

BOOST_AUTO_TEST_CASE_TEMPLATE(sent_bytes_are_counted, World, Worlds) {
  World world(2);
  open_both(world, two_way({1000}, 4));
  for (int i = 0; i < 3; ++i) send_message(world.channel(0), forth(1, i));
  for (int i = 0; i < 3; ++i) BOOST_TEST(receive_message(world.channel(1), forth(1, i)));
  world.channel(0).flush();
  const auto counts = world.channel(0).counts();
  BOOST_TEST(counts.edges.size() == 1u);
  BOOST_TEST(counts.edges.at(0).from == 0);
  BOOST_TEST(counts.edges.at(0).to == 1);
  BOOST_TEST(counts.edges.at(0).bytes == 12000u);
  BOOST_TEST(world.channel(1).counts().edges.at(0).bytes == 0u);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_lost_peer_ends_waits_and_may_come_back, World, Worlds) {
  World world(2);
  const auto edges = two_way({100'000}, 1);
  open_both(world, edges, 1);
  for (std::uint32_t configuration = 2; configuration <= 4; ++configuration) {
    // Some of these messages have left and are never received, some wait for a credit.
    for (int i = 0; i < 1 + transport::kSendBuffers; ++i)
      send_message(world.channel(0), forth(configuration, i));
    auto waiter = runner([&] { world.channel(0).receive(back(1)); });
    until([&] { return waits_for(world.channel(0), "gradient"); });
    world.disconnect(1);
    expect_error(ErrorKind::unavailable, {"the connection to rank 1 is lost"},
                 [&] { waiter.get(); });
    expect_error(ErrorKind::unavailable, {"rank 1"}, [&] { world.channel(0).flush(); });
    world.restart(1);
    open_both(world, edges, configuration);
    send_message(world.channel(0), forth(configuration, 7));
    BOOST_TEST(receive_message(world.channel(1), forth(configuration, 7)));
  }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(status_may_be_read_while_runners_work, World, Worlds) {
  World world(2);
  open_both(world, two_way({2000}, 2));
  std::atomic<bool> stop = false;
  auto observer = runner([&] {
    std::uint64_t seen = 0;
    while (!stop) {
      for (int rank = 0; rank < 2; ++rank) {
        seen += world.channel(rank).waiting() ? 1 : 0;
        seen += world.channel(rank).counts().refused;
      }
    }
    return seen;
  });
  auto sender = runner([&] {
    for (std::uint64_t step = 0; step < 300; ++step) send_message(world.channel(0), forth(step));
  });
  for (std::uint64_t step = 0; step < 300; ++step)
    BOOST_TEST(receive_message(world.channel(1), forth(step)));
  sender.get();
  stop = true;
  observer.get();
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
