#pragma once

#include <boost/test/data/monomorphic.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <vector>

#include "tensor/errors/error.h"
#include "tests/contract/messages.h"
#include "tests/support/expect_error.h"

// Tests of what every Channel promises of configurations: which messages of which configuration
// arrive, and what ends must have in common. Include it after channel_contract.h, which says what a
// world is.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(channel_configurations_contract)

BOOST_AUTO_TEST_CASE_TEMPLATE(the_buffers_of_a_configuration_are_counted, World, Worlds) {
  if constexpr (requires { World::kOnDevice; }) return;  // memory depends on the placement
  World world(2);
  BOOST_TEST(world.channel(0).counts().buffer_bytes == 0u);
  const std::uint64_t message = 64 * sizeof(float);
  open_both(world, two_way({64}, 4));
  BOOST_TEST(world.channel(0).counts().buffer_bytes ==
             (4 + transport::kSendBuffers) * message);  // slots, and what it sends from
  std::vector<Edge> edges = two_way({64}, 1);
  edges.push_back({.from = 0, .to = 0, .chunk = 2, .shape = {64}, .slots = 3});
  world.channel(0).open({.run = kRun, .configuration = 2, .rank = 0, .edges = edges});
  edges.pop_back();
  world.channel(1).open({.run = kRun, .configuration = 2, .rank = 1, .edges = edges});
  // The slots of an edge to itself are buffers of the sender.
  const std::uint64_t of_edges = 1 + transport::kSendBuffers, of_own = 3 + transport::kSendBuffers;
  BOOST_TEST(world.channel(0).counts().buffer_bytes >= (of_edges + of_own) * message);
  BOOST_TEST(world.channel(0).counts().buffer_bytes <= (of_edges + of_own + 1) * message);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_receiver_may_open_late, World, Worlds) {
  World world(2);
  const auto edges = two_way({1000}, 1);
  world.channel(0).open({.run = kRun, .configuration = 1, .rank = 0, .edges = edges});
  for (int i = 0; i < transport::kSendBuffers; ++i) send_message(world.channel(0), forth(1, i));
  world.channel(1).open({.run = kRun, .configuration = 1, .rank = 1, .edges = edges});
  for (int i = 0; i < transport::kSendBuffers; ++i)
    BOOST_TEST(receive_message(world.channel(1), forth(1, i)));
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_receiver_may_open_a_configuration_early, World, Worlds) {
  World world(2);
  const auto edges = two_way({1000}, 1);
  open_both(world, edges, 1);
  world.channel(1).open({.run = kRun, .configuration = 2, .rank = 1, .edges = edges});
  world.channel(0).open({.run = kRun, .configuration = 2, .rank = 0, .edges = edges});
  send_message(world.channel(0), forth(1));
  BOOST_TEST(receive_message(world.channel(1), forth(1)));
}

BOOST_AUTO_TEST_CASE_TEMPLATE(messages_of_an_older_configuration_are_dropped, World, Worlds) {
  World world(2);
  const auto edges = two_way({3000}, 1);
  open_both(world, edges, 1);
  send_message(world.channel(0), forth(1));
  BOOST_TEST(
      receive_message(world.channel(1), forth(1)));  // the credits of configuration 1 are there
  world.channel(1).open({.run = kRun, .configuration = 2, .rank = 1, .edges = edges});
  send_message(world.channel(0), forth(2));
  until([&] { return world.channel(1).counts().dropped_old > 0; });
  world.channel(0).open({.run = kRun, .configuration = 2, .rank = 0, .edges = edges});
  send_message(world.channel(0), forth(3));
  BOOST_TEST(receive_message(world.channel(1), forth(3)));
  BOOST_TEST(world.channel(1).counts().refused == 0u);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(messages_of_another_run_are_dropped, World, Worlds) {
  World world(2);
  const auto edges = two_way({3000}, 2);
  open_both(world, edges, 1);
  send_message(world.channel(0), forth(1));
  BOOST_TEST(receive_message(world.channel(1), forth(1)));
  world.channel(1).open({.run = kRun + 1, .configuration = 1, .rank = 1, .edges = edges});
  send_message(world.channel(0), forth(2));
  until([&] { return world.channel(1).counts().dropped_old > 0; });
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_configuration_forgets_the_one_before, World, Worlds) {
  World world(2);
  const auto edges = two_way({700}, 3);
  for (std::uint32_t configuration = 1; configuration <= 4; ++configuration) {
    open_both(world, edges, configuration);
    // One is held, one is ready, one is queued for want of a credit when the configuration ends.
    for (int i = 0; i < 4; ++i) send_message(world.channel(0), forth(configuration, i));
    world.channel(1).receive(forth(configuration, 1));
  }
  open_both(world, edges, 5);
  world.channel(1).set_deadline(10ms);
  expect_error(ErrorKind::unavailable, {"activation of step 4, microbatch 2"},
               [&] { world.channel(1).receive(forth(4, 2)); });
  world.channel(1).set_deadline(0ms);
  for (int i = 0; i < 3; ++i) send_message(world.channel(0), forth(9, i));
  for (int i = 0; i < 3; ++i) BOOST_TEST(receive_message(world.channel(1), forth(9, i)));
}

/// By their ranks in the configuration, which differ from the numbers of processes after a
/// recovery.
BOOST_AUTO_TEST_CASE_TEMPLATE(ends_that_describe_an_edge_differently_are_named, World, Worlds) {
  World world(2);
  auto theirs = two_way({4, 8}, 2);
  auto ours = theirs;
  theirs[0].dtype = tensor::DType::bf16;
  world.channel(0).open(
      {.run = kRun, .configuration = 1, .rank = 0, .edges = ours, .ranks = {{0, 6}, {1, 7}}});
  world.channel(1).open({.run = kRun, .configuration = 1, .rank = 1, .edges = theirs});
  until([&] { return world.channel(0).counts().refused > 0; });
  expect_error(ErrorKind::unavailable,
               {"refused", "from rank 7", "edge 6 -> 7 (activations into chunk 1)",
                "expected 2 slots of float32 [4, 8], got 2 of bfloat16 [4, 8]"},
               [&] { world.channel(0).receive(back(1)); });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
