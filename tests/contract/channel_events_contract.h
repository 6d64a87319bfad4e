#pragma once

#include <boost/test/unit_test.hpp>
#include <vector>

#include "tests/contract/channel_contract.h"
#include "tests/support/async_device.h"
#include "tests/support/guarded_memory.h"
#include "tests/support/manual_event.h"

// Tests of what every Channel promises of messages and slots that wait for an event of a device.
// Included after `Worlds` is defined, as channel_contract.h says.

namespace troupe::test {

inline void write_message(const tensor::Tensor& buffer, const MessageKey& key) {
  for (std::int64_t i = 0; i < buffer.num_elements(); ++i) buffer.as<float>()[i] = value_of(key, i);
}

BOOST_AUTO_TEST_SUITE(channel_events_contract)

BOOST_AUTO_TEST_CASE_TEMPLATE(a_message_leaves_when_its_event_is_reached, World, Worlds) {
  for (const std::int64_t elements : {7, 70'000}) {
    World world(2);
    open_both(world, two_way({elements}, 2));
    Channel &sender = world.channel(0), &receiver = world.channel(1);
    ManualEvent written;
    const tensor::Tensor buffer = sender.acquire(forth(1, 0));
    sender.send(forth(1, 0), buffer, written);
    send_message(sender, forth(1, 1));
    BOOST_TEST(receive_message(receiver, forth(1, 1)));
    BOOST_TEST(!receiver.ready({.message = forth(1, 0), .buffer = {}}));
    write_message(buffer, forth(1, 0));
    written.reach();
    BOOST_TEST(receive_message(receiver, forth(1, 0)));
  }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_slot_is_freed_when_its_event_is_reached, World, Worlds) {
  World world(2);
  open_both(world, two_way({256}, 1));
  Channel &sender = world.channel(0), &receiver = world.channel(1);
  for (int microbatch = 0; microbatch < 2; ++microbatch) send_message(sender, forth(1, microbatch));
  ManualEvent read;
  const tensor::Tensor first = receiver.receive(forth(1, 0));
  receiver.release(forth(1, 0), read);
  receiver.set_deadline(20ms);
  expect_error(ErrorKind::unavailable, {"activation of step 1, microbatch 1"},
               [&] { receiver.receive(forth(1, 1)); });
  receiver.set_deadline(0ms);
  BOOST_TEST(holds_message(first, forth(1, 0)));
  read.reach();
  BOOST_TEST(receive_message(receiver, forth(1, 1)));
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_slot_freed_while_the_receiver_sleeps_goes_back, World, Worlds) {
  constexpr int kSlots = 8;
  World world(2);
  open_both(world, two_way({256}, kSlots));
  Channel &sender = world.channel(0), &receiver = world.channel(1);
  send_message(sender, forth(1, 0));
  ManualEvent read;
  receiver.receive(forth(1, 0));
  receiver.release(forth(1, 0), read);
  auto sleeper = runner([&] { return receive_message(receiver, forth(1, kSlots)); });
  until([&] { return waits_for(receiver, "microbatch 8"); });
  // With the credits of all other slots the sender is not short of any, so that a receiver which is
  // awake would owe this one until later.
  read.reach();
  for (int microbatch = 1; microbatch <= kSlots; ++microbatch)
    send_message(sender, forth(1, microbatch));
  BOOST_TEST(sleeper.get());
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_credit_is_for_the_first_message_that_lacks_one, World, Worlds) {
  World world(2);
  open_both(world, two_way({256}, 1));
  Channel &sender = world.channel(0), &receiver = world.channel(1);
  send_message(sender, forth(1, 0));
  ManualEvent written[2];
  const auto send_later = [&](int microbatch, ManualEvent& event) {
    const tensor::Tensor buffer = sender.acquire(forth(1, microbatch));
    write_message(buffer, forth(1, microbatch));
    sender.send(forth(1, microbatch), buffer, event);
  };
  send_later(1, written[0]);
  BOOST_TEST(receive_message(receiver, forth(1, 0)));
  // The credit travels before this message.
  send_message(receiver, back(1));
  BOOST_TEST(receive_message(sender, back(1)));
  send_later(2, written[1]);
  for (ManualEvent& event : written) event.reach();
  for (const int microbatch : {1, 2}) BOOST_TEST(receive_message(receiver, forth(1, microbatch)));
}

BOOST_AUTO_TEST_CASE_TEMPLATE(the_only_slot_is_for_the_earlier_message_though_written_later, World,
                              Worlds) {
  World world(2);
  open_both(world, two_way({256}, 1));
  Channel &sender = world.channel(0), &receiver = world.channel(1);
  send_message(sender, forth(1, 0));  // into the only slot
  ManualEvent written;
  const tensor::Tensor buffer = sender.acquire(forth(1, 1));
  sender.send(forth(1, 1), buffer, written);
  send_message(sender, forth(1, 2));
  BOOST_TEST(receive_message(receiver, forth(1, 0)));
  send_message(receiver, back(1, 0));
  BOOST_TEST(receive_message(sender, back(1, 0)));  // the slot's credit has come with it
  write_message(buffer, forth(1, 1));
  written.reach();
  receiver.set_deadline(10s);
  for (const int microbatch : {1, 2}) BOOST_TEST(receive_message(receiver, forth(1, microbatch)));
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_wait_for_a_credit_gets_its_name_when_events_are_reached, World,
                              Worlds) {
  World world(2);
  open_both(world, two_way({256}, 1));
  Channel &sender = world.channel(0), &receiver = world.channel(1);
  send_message(sender, forth(1, 0));  // into the only slot
  ManualEvent written;
  for (const int microbatch : {1, 2}) {
    const tensor::Tensor buffer = sender.acquire(forth(1, microbatch));
    write_message(buffer, forth(1, microbatch));
    sender.send(forth(1, microbatch), buffer, written);
  }
  auto sleeper = runner([&] { send_message(sender, forth(1, 3)); });
  until([&] { return waits_for(sender, "a send buffer"); });
  written.reach();
  until([&] { return waits_for(sender, "credit for activation of step 1, microbatch 3"); });
  for (int microbatch = 0; microbatch <= 3; ++microbatch)
    BOOST_TEST(receive_message(receiver, forth(1, microbatch)));
  sleeper.get();
}

BOOST_AUTO_TEST_CASE_TEMPLATE(events_that_are_reached_hold_nothing_back, World, Worlds) {
  World world(2);
  open_both(world, two_way({256}, 1));
  ManualEvent reached;
  reached.reach();
  for (std::uint64_t step = 0; step < 5; ++step) {
    const tensor::Tensor buffer = world.channel(0).acquire(forth(step));
    write_message(buffer, forth(step));
    world.channel(0).send(forth(step), buffer, reached);
    BOOST_TEST(holds_message(world.channel(1).receive(forth(step)), forth(step)));
    world.channel(1).release(forth(step), reached);
  }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(what_events_held_back_in_a_configuration_that_ended_is_dropped,
                              World, Worlds) {
  World world(2);
  open_both(world, two_way({256}, 2));
  Channel &sender = world.channel(0), &receiver = world.channel(1);
  send_message(sender, forth(1, 0));
  ManualEvent written, read;
  sender.send(forth(1, 1), sender.acquire(forth(1, 1)), written);
  receiver.receive(forth(1, 0));
  receiver.release(forth(1, 0), read);
  sender.close("the step is given up");
  open_both(world, two_way({256}, 2), 2);
  written.reach();
  read.reach();
  for (Channel* channel : {&sender, &receiver}) channel->settle();
  for (int microbatch = 0; microbatch < 4; ++microbatch) {
    send_message(sender, forth(1, microbatch));
    BOOST_TEST(receive_message(receiver, forth(1, microbatch)));
  }
  BOOST_TEST(receiver.counts().dropped_old == 0u);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(settle_and_flush_wait_for_events, World, Worlds) {
  World world(2);
  open_both(world, two_way({256}, 1));
  Channel& sender = world.channel(0);
  ManualEvent written;
  sender.send(forth(1), sender.acquire(forth(1)), written);
  bool reached = false;
  auto device = runner([&] {
    reached = true;
    written.reach();
  });
  sender.settle();
  BOOST_TEST(reached);
  device.get();
  sender.flush();
  world.channel(1).receive(forth(1));
  world.channel(1).release(forth(1));
}

BOOST_AUTO_TEST_CASE_TEMPLATE(an_edge_to_itself_hands_over_before_its_event, World, Worlds) {
  World world(1);
  Channel& channel = world.channel(0);
  channel.open({.run = kRun,
                .configuration = 1,
                .rank = 0,
                .edges = {{.from = 0, .to = 0, .chunk = 1, .shape = {100}, .slots = 1}}});
  ManualEvent written, read;
  std::vector<MessageKey> held;
  for (int microbatch = 0; channel.ready({.message = {}, .buffer = forth(1, microbatch)});
       ++microbatch) {
    const MessageKey key = forth(1, microbatch);
    channel.send(key, channel.acquire(key), written);
    if (!channel.ready({.message = key, .buffer = {}})) continue;
    channel.receive(key);
    channel.release(key, read);  // the buffer is not free before its reader has run
    held.push_back(key);
  }
  BOOST_TEST(!held.empty());
  read.reach();
  BOOST_TEST(channel.ready({.message = {}, .buffer = forth(2)}));
  written.reach();
  channel.settle();
}

BOOST_AUTO_TEST_CASE_TEMPLATE(an_edge_to_itself_lies_in_the_memory_of_the_device, World, Worlds) {
  AsyncDevice device(1);
  World world(1);
  Channel& channel = world.channel(0);
  channel.open({.run = kRun,
                .configuration = 1,
                .rank = 0,
                .edges = {{.from = 0, .to = 0, .chunk = 1, .shape = {100}, .slots = 1}},
                .device = &device});
  const tensor::Tensor buffer = channel.acquire(forth(1));
  BOOST_TEST(is_guarded(buffer.data));
  channel.send(forth(1), buffer);
  BOOST_TEST(channel.receive(forth(1)).data == buffer.data);
  channel.release(forth(1));
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_wait_ends_if_the_device_has_failed, World, Worlds) {
  World world(2);
  open_both(world, two_way({256}, 1));
  Channel& sender = world.channel(0);
  ManualEvent written;
  sender.send(forth(1), sender.acquire(forth(1)), written);
  written.fail();
  // The other rank would answer what it never gets.
  expect_error(ErrorKind::internal, {"the device has failed"}, [&] { sender.receive(back(1)); });
  written.reach();  // ends the hand-over
  sender.settle();
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
