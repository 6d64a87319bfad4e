#pragma once

#include <boost/test/unit_test.hpp>
#include <string>
#include <vector>

#include "tests/contract/channel_pieces_contract.h"
#include "tests/support/manual_event.h"

// Tests of what every Channel promises of edges that carry pieces of tensors: waits and their
// names, refusals, deaths, configurations, counts. Included after `Worlds` is defined.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(channel_pieces_rules_contract)

BOOST_AUTO_TEST_CASE_TEMPLATE(a_wait_names_the_sender_of_the_missing_piece, World, Worlds) {
  const Bridge made = bridge(2, 1);
  World world(3);
  open_all(world, 3, made.forward());
  Channel& receiver = world.channel(2);
  for (const int early : {0, 1}) {
    const MessageKey key = forth(static_cast<std::uint64_t>(early));
    send_rows(world.channel(early), key, made.rows_of(early));
    world.channel(early).flush();
    const std::string late = std::to_string(1 - early);
    auto waiter = runner([&] { return receive_rows(receiver, key, made.rows_of(2)); });
    until([&] { return waits_for(receiver, "into chunk 1 from rank " + late); });
    BOOST_TEST((receiver.waiting()->on == std::vector{1 - early}));
    send_rows(world.channel(1 - early), key, made.rows_of(1 - early));
    BOOST_TEST(waiter.get());
  }
  const Needs needs{.message = forth(7), .buffer = {}};
  send_rows(world.channel(0), forth(7), made.rows_of(0));
  BOOST_TEST(!receiver.ready(needs));
  receiver.set_deadline(20ms);
  expect_error(ErrorKind::unavailable, {"waited 0.02 s for activation of step 7", "from rank"},
               [&] { receiver.wait_for_either(needs, needs); });
  receiver.set_deadline(0ms);
  send_rows(world.channel(1), forth(7), made.rows_of(1));
  receiver.wait_for_either(needs, needs);
  BOOST_TEST(receiver.ready(needs));
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_buffer_is_free_once_all_its_pieces_have_left, World, Worlds) {
  const Bridge made = bridge(1, 2, 64, 2);
  World world(3);
  open_all(world, 3, made.forward());
  Channel& sender = world.channel(0);
  constexpr int kMost = 2 + transport::kSendBuffers;
  for (int i = 0; i < kMost; ++i) send_rows(sender, forth(1, i), made.rows_of(0));
  for (int i = 0; i < kMost; ++i)
    BOOST_TEST(receive_rows(world.channel(1), forth(1, i), made.rows_of(1)));
  BOOST_TEST(!sender.ready({.message = {}, .buffer = forth(1, 9)}));
  sender.set_deadline(20ms);
  expect_error(ErrorKind::unavailable,
               {"waited 0.02 s for credit for activation of step 1, microbatch 9 into chunk 1 from "
                "rank 2"},
               [&] { sender.acquire(forth(1, 9)); });
  sender.set_deadline(0ms);
  for (int i = 0; i < kMost; ++i)
    BOOST_TEST(receive_rows(world.channel(2), forth(1, i), made.rows_of(2)));
  send_rows(sender, forth(1, 9), made.rows_of(0));
  for (const int rank : {1, 2})
    BOOST_TEST(receive_rows(world.channel(rank), forth(1, 9), made.rows_of(rank)));
}

BOOST_AUTO_TEST_CASE_TEMPLATE(pieces_wait_for_their_events, World, Worlds) {
  const Bridge made = bridge(4, 2, 700, 2);
  World world(6);
  open_all(world, 6, made.forward());
  ManualEvent written, read;
  for (int rank = 0; rank < 4; ++rank) {
    Channel& channel = world.channel(rank);
    if (rank != 1) {
      for (int i = 0; i < 2; ++i) send_rows(channel, forth(1, i), made.rows_of(rank));
      continue;
    }
    const tensor::Tensor buffer = channel.acquire(forth(1, 0));
    write_rows(buffer, forth(1, 0), made.rows_of(rank));
    channel.send(forth(1, 0), buffer, written);
    send_rows(channel, forth(1, 1), made.rows_of(rank));
  }
  Channel& receiver = world.channel(4);
  BOOST_TEST(receive_rows(receiver, forth(1, 1), made.rows_of(4)));
  BOOST_TEST(!receiver.ready({.message = forth(1, 0), .buffer = {}}));
  written.reach();
  BOOST_TEST(has_rows(receiver.receive(forth(1, 0)), forth(1, 0), made.rows_of(4)));
  receiver.release(forth(1, 0), read);
  for (int i = 2; i < 8; ++i) {  // one slot is left, which all senders use in turn
    for (const int rank : {0, 1}) send_rows(world.channel(rank), forth(1, i), made.rows_of(rank));
    BOOST_TEST(receive_rows(receiver, forth(1, i), made.rows_of(4)));
  }
  read.reach();
  receiver.settle();
}

BOOST_AUTO_TEST_CASE_TEMPLATE(pieces_in_different_orders_are_refused, World, Worlds) {
  const Bridge made = bridge(2, 1);
  World world(3);
  open_all(world, 3, made.forward());
  for (const int i : {0, 1}) send_rows(world.channel(0), forth(1, i), made.rows_of(0));
  Channel& receiver = world.channel(2);
  for (const int rank : {0, 1}) world.channel(rank).flush();
  send_rows(world.channel(1), forth(1, 1), made.rows_of(1));
  until([&] { return receiver.counts().refused > 0; });
  expect_error(ErrorKind::unavailable, {"refused", "from rank", "edge", "slot 0"},
               [&] { receiver.receive(forth(1, 0)); });
}

BOOST_AUTO_TEST_CASE_TEMPLATE(ends_that_describe_a_piece_differently_are_named, World, Worlds) {
  const Bridge made = bridge(1, 2);
  World world(3);
  auto theirs = made.forward();
  theirs[1].sent.first_row = 3;
  world.channel(0).open({.run = kRun, .configuration = 1, .rank = 0, .edges = made.forward()});
  world.channel(2).open({.run = kRun, .configuration = 1, .rank = 2, .edges = edges_at(theirs, 2)});
  until([&] { return world.channel(0).counts().refused > 0; });
  expect_error(
      ErrorKind::unavailable,
      {"refused", "from rank 2", "edge 0 -> 2", "expected 2 slots of float32 [4, 5]", "other rows"},
      [&] { world.channel(0).acquire(forth(1)); });
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_lost_rank_of_a_bridge_ends_waits, World, Worlds) {
  for (const auto& [senders, receivers] : {std::pair{1, 2}, {2, 1}}) {
    const Bridge made = bridge(senders, receivers);
    World world(3);
    std::vector<Edge> edges = made.forward();
    for (Edge& edge : edges)
      if (receivers == 1) edge.from = edge.from + 1, edge.to = 0;
    open_all(world, 3, edges);
    // The supervisor tells rank 0, which receives from both others, or sends to both.
    if (receivers == 1)
      send_rows(world.channel(1), forth(1), made.rows_of(0));
    else
      for (int i = 0; i < 2 + transport::kSendBuffers; ++i)
        send_rows(world.channel(0), forth(1, i), made.rows_of(0));
    auto waiter = runner([&] {
      if (receivers == 1)
        world.channel(0).receive(forth(1));
      else
        world.channel(0).acquire(forth(1, 8));
    });
    until([&] { return world.channel(0).waiting().has_value(); });
    world.disconnect(2);
    expect_error(ErrorKind::unavailable, {"the connection to rank 2 is lost"},
                 [&] { waiter.get(); });
  }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(pieces_of_an_older_configuration_are_dropped, World, Worlds) {
  const Bridge made = bridge(4, 2, 600, 1);
  World world(6);
  open_all(world, 6, made.forward());
  for (const int rank : {4, 5})
    world.channel(rank).open(
        {.run = kRun, .configuration = 2, .rank = rank, .edges = edges_at(made.forward(), rank)});
  for (int rank = 0; rank < 4; ++rank) send_rows(world.channel(rank), forth(1), made.rows_of(rank));
  until([&] { return world.channel(4).counts().dropped_old == 2; });
  for (int rank = 0; rank < 4; ++rank) {  // their grants have come before
    world.channel(rank).open(
        {.run = kRun, .configuration = 2, .rank = rank, .edges = edges_at(made.forward(), rank)});
    send_rows(world.channel(rank), forth(2), made.rows_of(rank));
  }
  for (const int rank : {4, 5}) {
    BOOST_TEST(receive_rows(world.channel(rank), forth(2), made.rows_of(rank)));
    BOOST_TEST(world.channel(rank).counts().refused == 0u);
  }
}

/// Halves that change places: two edges of one chunk between the same two ranks.
BOOST_AUTO_TEST_CASE_TEMPLATE(a_rank_may_send_several_pieces_to_another, World, Worlds) {
  constexpr std::int64_t kHidden = 11;
  std::vector<Edge> edges;
  for (const std::int64_t half : {0, 2})
    edges.push_back({.from = 0,
                     .to = 1,
                     .chunk = 1,
                     .shape = {2, kHidden},
                     .slots = 2,
                     .sent = {.first_row = half, .rows = 4},
                     .received = {.first_row = 2 - half, .rows = 4}});
  World world(2);
  for (const int rank : {1, 0})
    world.channel(rank).open({.run = kRun, .configuration = 1, .rank = rank, .edges = edges});
  for (int i = 0; i < 10; ++i) {
    send_rows(world.channel(0), forth(1, i), {.first = 0, .count = 4});
    const tensor::Tensor got = world.channel(1).receive(forth(1, i));
    for (std::int64_t at = 0; at < 4 * kHidden; ++at)
      BOOST_TEST_REQUIRE(got.as<float>()[at] ==
                         value_of(forth(1, i), (at + 2 * kHidden) % (4 * kHidden)));
    world.channel(1).release(forth(1, i));
  }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(buffers_and_bytes_of_pieces_are_counted, World, Worlds) {
  const Bridge made = bridge(4, 2, 64, 3);
  World world(6);
  const auto edges = made.both_ways();
  open_all(world, 6, edges);
  for (int rank = 0; rank < 4; ++rank) send_rows(world.channel(rank), forth(1), made.rows_of(rank));
  for (const int rank : {4, 5}) {
    BOOST_TEST(receive_rows(world.channel(rank), forth(1), made.rows_of(rank)));
    send_rows(world.channel(rank), back(1), made.rows_of(rank));
    world.channel(rank).flush();
    const auto counts = world.channel(rank).counts();
    BOOST_TEST(counts.edges.size() == 2u);
    for (const auto& edge : counts.edges) BOOST_TEST(edge.bytes == 2 * 64 * sizeof(float));
  }
  if constexpr (requires { World::kOnDevice; }) return;  // memory depends on the placement
  for (int rank = 0; rank < 6; ++rank)
    BOOST_TEST(world.channel(rank).counts().buffer_bytes ==
               transport::slots_bytes(edges, rank) + transport::send_buffers_bytes(edges, rank));
}

BOOST_AUTO_TEST_CASE_TEMPLATE(kept_tensors_of_pieces_stay_until_they_are_freed, World, Worlds) {
  if constexpr (requires { World::kOnDevice; }) return;  // no memory of a device is kept
  const Bridge made = bridge(2, 1, 64, 2);
  World world(3);
  open_all(world, 3, made.forward());
  Channel& receiver = world.channel(2);
  std::vector<tensor::Tensor> old;
  for (int i = 0; i < 2; ++i) {
    for (const int rank : {0, 1}) send_rows(world.channel(rank), forth(1, i), made.rows_of(rank));
    old.push_back(receiver.receive(forth(1, i)));
  }
  auto memory = receiver.keep(forth(1));
  for (const int rank : {0, 1}) {
    world.channel(rank).flush();
    world.channel(rank).open(
        {.run = kRun, .configuration = 2, .rank = rank, .edges = edges_at(made.forward(), rank)});
  }
  receiver.open({.run = kRun,
                 .configuration = 2,
                 .rank = 2,
                 .edges = edges_at(made.forward(), 2),
                 .kept = {{.chunk = 1, .memory = memory}}});
  for (const int rank : {0, 1}) send_rows(world.channel(rank), forth(2), made.rows_of(rank));
  for (int i = 0; i < 2; ++i)
    BOOST_TEST(has_rows(old[static_cast<std::size_t>(i)], forth(1, i), made.rows_of(2)));
  receiver.free_kept(forth(1));
  const tensor::Tensor message = receiver.receive(forth(2));
  BOOST_TEST(has_rows(message, forth(2), made.rows_of(2)));
  BOOST_TEST((message.data == old[0].data || message.data == old[1].data));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
