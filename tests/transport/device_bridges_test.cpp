#include <boost/test/unit_test.hpp>
#include <deque>
#include <latch>

#include "tests/contract/bridges.h"
#include "tests/transport/device_rank.h"
#include "transport/edges/memory_channel.h"

// Pieces between devices that compute later, on threads, and whose memory the host cannot touch:
// that every tensor arrives whole, and that a rank may die at any message of the protocol.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(device_bridges_test)

namespace {

using transport::EdgeChoice;
using transport::MemoryNetwork;

constexpr std::int64_t kHidden = 250;

/// Two ranks whose tensors make one of the third, and the gradients that come back.
struct Bridged {
  static constexpr int kRanks = 3;
  const Bridge made = bridge(2, 1, kHidden, 2);
  std::deque<DeviceRank> ranks;
  MemoryNetwork network;
  EdgeChoice choice;

  Bridged(EdgeChoice asked, bool shares_memory) : network(kRanks, shares_memory), choice(asked) {
    for (int rank = 0; rank < kRanks; ++rank)
      ranks.emplace_back(fresh_device_seed(), made.rows_of(rank).count * kHidden);
  }
  DeviceRank& at(int rank) { return ranks[static_cast<std::size_t>(rank)]; }
  void open(int rank, std::uint32_t configuration) {
    network.channel(rank).open({.run = kRun,
                                .configuration = configuration,
                                .rank = rank,
                                .edges = edges_at(made.both_ways(), rank),
                                .device = &at(rank).device(),
                                .choice = choice});
  }
  /// A rank's part of some steps, of which each has messages in both directions under way.
  bool run(int rank, std::uint64_t steps) {
    Channel& channel = network.channel(rank);
    const std::int64_t first = made.rows_of(rank).first * kHidden;
    const auto out = made.sends(rank) ? forth : back, in = made.sends(rank) ? back : forth;
    bool ok = true;
    for (std::uint64_t step = 0; step < steps; ++step) {
      for (int i = 0; i < 3; ++i) at(rank).send(channel, out(step, i), first);
      for (int i = 0; i < 3; ++i) ok = at(rank).receive(channel, in(step, i), first) && ok;
    }
    channel.flush();
    return ok;
  }
  /// Whether what a rank does comes through; not if its channel is closed.
  template <typename Part>
  static bool comes_through(Part part) {
    try {
      return part();
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::unavailable) throw;
      return false;
    }
  }
  /// All ranks' parts of a configuration that may end by an error. Whether all came through.
  bool run_all(std::uint32_t configuration, std::uint64_t steps) {
    std::latch opened(kRanks);  // a channel that is closed before it opens would not know of it
    std::vector<std::future<bool>> parts;
    for (int rank = 0; rank < kRanks; ++rank)
      parts.push_back(runner([&, rank] {
        open(rank, configuration);
        opened.arrive_and_wait();
        const bool ok = comes_through([&] { return run(rank, steps); });
        for (int other = 0; other < kRanks; ++other)
          if (!ok && other != rank) network.channel(other).close("another rank has failed");
        at(rank).end(network.channel(rank));
        return ok;
      }));
    bool ok = true;
    for (auto& part : parts) ok = part.get() && ok;
    return ok;
  }
};

/// By choice, and whether ranks map each other's slots.
const std::vector<std::pair<EdgeChoice, bool>> kPlacements{
    {EdgeChoice::peer, true}, {EdgeChoice::staged, true}, {EdgeChoice::staged, false}};

}  // namespace

BOOST_AUTO_TEST_CASE(pieces_arrive_whole) {
  for (const auto& [choice, shares_memory] : kPlacements)
    BOOST_TEST(Bridged(choice, shares_memory).run_all(1, 40));
}

BOOST_AUTO_TEST_CASE(a_rank_of_a_bridge_may_die_at_any_message) {
  for (const auto& [choice, shares_memory] : kPlacements) {
    Bridged world(choice, shares_memory);
    std::uint32_t configuration = 0;
    for (int rank = 0; rank < Bridged::kRanks; ++rank) {
      int deaths = 0;
      for (;; ++deaths) {
        world.network.disconnect_after(rank, deaths);
        const bool came_through = world.run_all(++configuration, 1);
        world.network.disconnect_after(rank, -1);
        world.network.reconnect(rank);
        BOOST_TEST(world.run_all(++configuration, 1), "after " << deaths << " messages");
        if (came_through) break;
      }
      BOOST_TEST(deaths > 8);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
