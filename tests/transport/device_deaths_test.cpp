#include <boost/test/unit_test.hpp>
#include <deque>

#include "tests/support/expect_error.h"
#include "tests/transport/device_rank.h"
#include "transport/edges/memory_channel.h"

// Edges of devices that compute later, on threads, and whose memory the host cannot touch: that
// every message arrives whole, and that a rank may die at any message of the protocol, whoever
// writes, reads, copies or maps slots then.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(device_deaths_test)

namespace {

using transport::EdgeChoice;
using transport::MemoryNetwork;

constexpr std::int64_t kElements = 2000;

struct Pair {
  std::deque<DeviceRank> ranks;
  MemoryNetwork network;
  EdgeChoice choice;

  Pair(EdgeChoice asked, bool shares_memory) : network(2, shares_memory), choice(asked) {
    for (int rank = 0; rank < 2; ++rank) ranks.emplace_back(fresh_device_seed(), kElements);
  }
  void open(int rank, std::uint32_t configuration) {
    network.channel(rank).open({.run = kRun,
                                .configuration = configuration,
                                .rank = rank,
                                .edges = two_way({kElements}, 2),
                                .device = &device(rank),
                                .choice = choice});
  }
  tensor::Device& device(int rank) { return ranks[static_cast<std::size_t>(rank)].device(); }
  /// A rank's part of some steps, of which each has messages in both directions under way.
  bool run(int rank, std::uint64_t steps) {
    DeviceRank& self = ranks[static_cast<std::size_t>(rank)];
    Channel& channel = network.channel(rank);
    const auto out = rank == 0 ? forth : back, in = rank == 0 ? back : forth;
    bool ok = true;
    for (std::uint64_t step = 0; step < steps; ++step) {
      for (int i = 0; i < 3; ++i) self.send(channel, out(step, i));
      for (int i = 0; i < 3; ++i) ok = self.receive(channel, in(step, i)) && ok;
    }
    channel.flush();
    return ok;
  }
  /// Both ranks' parts of a configuration that may end by an error. Whether both came through.
  bool run_both(std::uint32_t configuration, std::uint64_t steps) {
    const auto part = [&](int rank) {
      return runner([this, rank, configuration, steps] {
        bool ok = false;
        try {
          open(rank, configuration);
          ok = run(rank, steps);
        } catch (const Error& error) {
          if (error.kind() != ErrorKind::unavailable) throw;
        }
        if (!ok) network.channel(1 - rank).close("the other rank has failed");
        ranks[static_cast<std::size_t>(rank)].end(network.channel(rank));
        return ok;
      });
    };
    auto first = part(0), second = part(1);
    const bool ok = first.get();
    return second.get() && ok;
  }
};

/// By choice, and whether ranks map each other's slots.
const std::vector<std::pair<EdgeChoice, bool>> kPlacements{
    {EdgeChoice::peer, true}, {EdgeChoice::staged, true}, {EdgeChoice::staged, false}};

}  // namespace

BOOST_AUTO_TEST_CASE(a_rank_may_die_at_any_message) {
  constexpr std::uint64_t kSteps = 2;
  for (const auto& [choice, shares_memory] : kPlacements) {
    Pair pair(choice, shares_memory);
    std::uint32_t configuration = 0;
    int deaths = 0;
    for (int rank = 0; rank < 2; ++rank)
      for (int messages = 0;; ++messages) {
        pair.network.disconnect_after(rank, messages);
        const bool came_through = pair.run_both(++configuration, kSteps);
        pair.network.disconnect_after(rank, -1);
        pair.network.reconnect(rank);
        BOOST_TEST(pair.run_both(++configuration, kSteps), "after " << messages << " messages");
        if (came_through) break;
        ++deaths;
      }
    BOOST_TEST(deaths > 20);
  }
}

BOOST_AUTO_TEST_CASE(a_failed_device_ends_the_waits_for_its_copies) {
  for (const bool shares_memory : {true, false}) {
    AsyncDevice broken(fresh_device_seed(), 1, [](std::uint64_t op) { return op == 1; });
    AsyncDevice device(fresh_device_seed());
    MemoryNetwork network(2, shares_memory);
    for (int rank = 0; rank < 2; ++rank)
      network.channel(rank).open({.run = kRun,
                                  .configuration = 1,
                                  .rank = rank,
                                  .edges = two_way({kElements}, 1),
                                  .device = rank == 0 ? &broken : &device,
                                  .choice = EdgeChoice::staged});
    Channel& sender = network.channel(0);
    expect_error(ErrorKind::internal, {"failed in op 1"}, [&] {
      for (int i = 0;; ++i) sender.send(forth(1, i), sender.acquire(forth(1, i)));
    });
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
