#include "transport/edges/memory_channel.h"

#include <tuple>

namespace troupe::test {

class MemoryWorld {
 public:
  explicit MemoryWorld(int ranks) : network(ranks) {}
  transport::Channel& channel(int rank) { return network.channel(rank); }
  void disconnect(int rank) { network.disconnect(rank); }
  void restart(int rank) { network.reconnect(rank); }

  transport::MemoryNetwork network;
};

using Worlds = std::tuple<MemoryWorld>;

}  // namespace troupe::test

#include "tests/contract/channel_contract.h"
#include "tests/contract/channel_contract_of_configurations.h"
#include "tests/contract/channel_events_contract.h"
#include "tests/contract/channel_pieces_contract.h"
#include "tests/contract/channel_pieces_rules_contract.h"

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(scripted_faults)

struct Pair : MemoryWorld {
  Pair() : MemoryWorld(2) { open_both(*this, two_way({32}, 4)); }
};

BOOST_FIXTURE_TEST_CASE(blocked_messages_wait_in_order, Pair) {
  network.block(0, 1);
  for (int i = 0; i < 2; ++i) send_message(channel(0), forth(1, i));
  channel(1).set_deadline(5ms);
  expect_error(ErrorKind::unavailable, {"activation of step 1, microbatch 0"},
               [&] { channel(1).receive(forth(1, 0)); });
  channel(0).set_deadline(5ms);
  expect_error(ErrorKind::unavailable, {"a send buffer for activation of step 1, microbatch 2"},
               [&] { channel(0).acquire(forth(1, 2)); });
  expect_error(ErrorKind::unavailable, {"the tensors sent to rank 1 to leave"},
               [&] { channel(0).flush(); });
  network.unblock(0, 1);
  for (int i = 0; i < 2; ++i) BOOST_TEST(receive_message(channel(1), forth(1, i)));
  channel(0).flush();
}

BOOST_FIXTURE_TEST_CASE(a_lost_message_is_named, Pair) {
  network.drop_next(0, 1);
  for (int i = 0; i < 2; ++i) send_message(channel(0), forth(1, i));
  BOOST_TEST(receive_message(channel(1), forth(1, 1)));
  channel(1).set_deadline(5ms);
  expect_error(ErrorKind::unavailable,
               {"waited 0.005 s for activation of step 1, microbatch 0 into chunk 1 from rank 0"},
               [&] { channel(1).receive(forth(1, 0)); });
}

BOOST_FIXTURE_TEST_CASE(a_repeated_message_counts_once, Pair) {
  for (std::uint64_t step = 0; step < 20; ++step) {
    network.duplicate_next(0, 1);
    send_message(channel(0), forth(step));
    BOOST_TEST(receive_message(channel(1), forth(step)));
    BOOST_TEST(channel(1).counts().dropped_duplicate == step + 1);
  }
  BOOST_TEST(channel(1).counts().refused == 0u);
}

BOOST_FIXTURE_TEST_CASE(a_late_message_is_found_all_the_same, Pair) {
  for (std::uint64_t step = 0; step < 20; ++step) {
    network.delay_next(0, 1);
    for (int i = 0; i < 2; ++i) send_message(channel(0), forth(step, i));
    for (int i = 0; i < 2; ++i) BOOST_TEST(receive_message(channel(1), forth(step, i)));
  }
}

BOOST_FIXTURE_TEST_CASE(a_damaged_header_is_refused, Pair) {
  network.damage_next(0, 1);
  send_message(channel(0), forth(1));
  BOOST_TEST(channel(1).counts().refused == 1u);
  expect_error(ErrorKind::unavailable, {"refused", "damaged"},
               [&] { channel(1).receive(forth(1)); });
}

BOOST_FIXTURE_TEST_CASE(what_waits_on_a_cut_line_is_lost, Pair) {
  network.block(0, 1);
  send_message(channel(0), forth(1));
  network.disconnect(1);
  expect_error(ErrorKind::unavailable, {"rank 1", "cut off"}, [&] { channel(0).flush(); });
  expect_error(ErrorKind::unavailable, {"cut off"}, [&] { channel(1).receive(forth(1)); });
}

BOOST_FIXTURE_TEST_CASE(an_old_configurations_message_may_come_after_the_new_opened, Pair) {
  network.block(0, 1);
  send_message(channel(0), forth(1));
  open_both(*this, two_way({32}, 4),
            2);  // the message still lies in the old configuration's buffer
  network.unblock(0, 1);
  BOOST_TEST(channel(1).counts().dropped_old == 1u);
  send_message(channel(0), forth(2));
  BOOST_TEST(receive_message(channel(1), forth(2)));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
