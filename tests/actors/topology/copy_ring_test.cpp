#include "actors/topology/state/copy_ring.h"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <numeric>

#include "actors/topology/hosts.h"
#include "actors/topology/state/state_plan.h"
#include "tests/support/mutate.h"
#include "tests/support/run_specs.h"
#include "tests/support/seed.h"

namespace troupe::actors {

BOOST_AUTO_TEST_SUITE(copy_ring_test)

namespace {

ClusterShape shape_of(int pp, int tp) {
  return {.mesh = {.pp = pp, .tp = tp}, .schedule = {}, .layout = {}};
}

/// The keeper of each rank.
std::vector<int> keepers(const ClusterShape& shape, const std::vector<int>& hosts) {
  const CopyRing ring = copy_ring(shape, hosts);
  std::vector<int> keepers;
  for (int rank = 0; rank < shape.num_ranks(); ++rank)
    keepers.push_back(ring.keeper_of(shape, rank));
  return keepers;
}

/// A configuration whose ranks are on these hosts.
Configuration on_hosts(const RunSpec& spec, const std::vector<std::string>& hosts) {
  Configuration configuration{.number = 1, .shape = first_shape(spec), .members = {}};
  for (const std::string& host : hosts) {
    const int rank = configuration.members.size();
    configuration.members.push_back(
        {.id = rank, .incarnation = static_cast<std::uint64_t>(rank) + 100, .host = host});
  }
  return configuration;
}

/// What is left in memory of a configuration when a host is lost.
std::map<std::uint64_t, StateInventory> left_without(const Configuration& kept,
                                                     const std::string& lost) {
  const CopyRing ring = copy_ring(kept);
  std::map<std::uint64_t, StateInventory> inventory;
  for (const auto& [rank, member] : kept.members) {
    if (member.host == lost) continue;
    inventory[member.incarnation] = {
        .step = 7, .copies = {{.rank = ring.source_of(kept.shape, rank), .step = 7}}};
  }
  return inventory;
}

/// The ranks that are left, as a pipeline.
Configuration shrunk_without(RunSpec spec, const Configuration& kept, const std::string& lost) {
  std::vector<Member> left;
  for (const auto& [rank, member] : kept.members)
    if (member.host != lost) left.push_back(member);
  spec.mesh.pp = static_cast<int>(left.size());
  Configuration next{.number = 2, .shape = first_shape(spec), .members = {}};
  for (const Member& member : left) next.members.push_back(member);
  return next;
}

}  // namespace

BOOST_AUTO_TEST_CASE(on_one_host_the_next_stage_keeps_the_copy) {
  for (const ClusterShape& shape : {shape_of(4, 1), shape_of(2, 2), shape_of(1, 4)}) {
    const std::vector<int> hosts(static_cast<std::size_t>(shape.num_ranks()), 7);
    BOOST_TEST((copy_ring(shape, hosts) == CopyRing{}));
    for (int rank = 0; rank < shape.num_ranks(); ++rank) {
      BOOST_TEST(CopyRing().keeper_of(shape, rank) == neighbour_of(shape, rank, 1));
      BOOST_TEST(CopyRing().source_of(shape, rank) == neighbour_of(shape, rank, -1));
      BOOST_TEST((CopyRing().for_rank(shape, rank) == CopyRing{}));
    }
  }
  const RunSpec spec = test::small_run(3);
  BOOST_TEST((copy_ring(on_hosts(spec, {"", "", ""})) == CopyRing{}));
  BOOST_TEST((copy_ring(on_hosts(spec, {"a", "a", "a"})) == CopyRing{}));
}

BOOST_AUTO_TEST_CASE(a_copy_is_on_another_host) {
  BOOST_TEST((keepers(shape_of(2, 1), {0, 1}) == std::vector{1, 0}));
  BOOST_TEST((keepers(shape_of(4, 1), {0, 0, 1, 1}) == std::vector{2, 3, 0, 1}));
  BOOST_TEST((keepers(shape_of(4, 1), {0, 1, 0, 1}) == std::vector{1, 0, 3, 2}));
  BOOST_TEST((keepers(shape_of(3, 1), {2, 1, 0}) == std::vector{2, 0, 1}));
  BOOST_TEST((keepers(shape_of(2, 2), {0, 0, 1, 1}) == std::vector{2, 3, 0, 1}));
  // Three of four are on one host: two copies stay there.
  BOOST_TEST((keepers(shape_of(4, 1), {0, 0, 0, 1}) == std::vector{3, 0, 1, 2}));
}

BOOST_AUTO_TEST_CASE(any_ranks_on_any_hosts) {
  const std::uint64_t seed = test::fresh_seed();
  std::mt19937_64 random(seed);
  const auto number = [&](std::size_t most) {
    return 1 + static_cast<int>(test::below(random, most));
  };
  for (int round = 0; round < 5000; ++round) {
    const ClusterShape shape = shape_of(number(8), number(3));
    const int ranks = shape.num_ranks(), most_hosts = number(5);
    if (ranks == 1) continue;
    std::vector<int> hosts;
    for (int rank = 0; rank < ranks; ++rank) hosts.push_back(number(most_hosts));
    int largest = 0;
    for (const int host : hosts)
      largest = std::max(largest, static_cast<int>(std::ranges::count(hosts, host)));
    BOOST_TEST_CONTEXT("TROUPE_TEST_SEED=" << seed << " round " << round) {
      const CopyRing ring = copy_ring(shape, hosts);
      std::vector<int> kept(static_cast<std::size_t>(ranks));
      int stay = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const int keeper = ring.keeper_of(shape, rank);
        BOOST_TEST(keeper != rank);
        BOOST_TEST(ring.source_of(shape, keeper) == rank);
        ++kept.at(static_cast<std::size_t>(keeper));
        stay += hosts[static_cast<std::size_t>(rank)] == hosts[static_cast<std::size_t>(keeper)];
        const CopyRing own = ring.for_rank(shape, rank);
        BOOST_TEST(own.keepers.size() <= 2u);
        BOOST_TEST(own.keeper_of(shape, rank) == keeper);
        BOOST_TEST(own.source_of(shape, rank) == ring.source_of(shape, rank));
      }
      BOOST_TEST((std::ranges::count(kept, 1) == ranks));
      BOOST_TEST(stay == std::max(0, 2 * largest - ranks));
    }
  }
}

BOOST_AUTO_TEST_CASE(all_state_survives_the_loss_of_any_host_that_others_have_room_for) {
  const std::uint64_t seed = test::fresh_seed();
  std::mt19937_64 random(seed);
  const auto number = [&](std::size_t most) {
    return 1 + static_cast<int>(test::below(random, most));
  };
  for (int round = 0; round < 300; ++round) {
    const int pp = 1 + number(5);
    const RunSpec spec = test::small_run(pp);
    std::vector<Host> places;
    for (int i = 0, most = 1 + number(3); i < most; ++i)
      places.push_back({.name = "h" + std::to_string(i), .slots = number(6)});
    int slots = 0;
    for (const Host& host : places) slots += host.slots;
    if (slots < pp) continue;
    std::vector<std::string> hosts;
    for (const int host : place_ranks(spec.mesh, places, {}))
      hosts.push_back(places[static_cast<std::size_t>(host)].name);
    if (number(2) == 1) std::ranges::shuffle(hosts, random);  // as after recoveries
    const Configuration kept = on_hosts(spec, hosts);
    std::vector<int> numbers;
    for (const std::string& host : hosts)
      numbers.push_back(static_cast<int>(std::ranges::find(hosts, host) - hosts.begin()));
    bool survives_any = true;
    for (const std::string& lost : hosts) {
      const auto on_lost = std::ranges::count(hosts, lost);
      const bool survives = on_lost < pp && plan_state(spec, kept, shrunk_without(spec, kept, lost),
                                                       left_without(kept, lost), 7);
      survives_any = survives_any && survives;
      BOOST_TEST_CONTEXT("TROUPE_TEST_SEED=" << seed << " round " << round << ", lost " << lost)
      BOOST_TEST(survives == (2 * on_lost <= pp));
    }
    BOOST_TEST(survives_loss_of_host(spec, kept.shape, numbers) == survives_any);
  }
}

// Stages at step 7, and one ahead of the others, lose stage 1. Copies are of steps 3 and 6, but the
// keeper of the lost stage has only the older one.
BOOST_AUTO_TEST_CASE(all_go_back_to_the_newest_step_that_was_copied_everywhere) {
  RunSpec spec = test::small_run(3, 1);
  spec.recovery.copy_interval = 3;
  const Configuration kept = on_hosts(spec, {"", "", ""});
  const Configuration next = shrunk_without(spec, on_hosts(spec, {"", "lost", ""}), "lost");
  const CopyRing ring = copy_ring(kept);
  BOOST_TEST_REQUIRE(ring.keeper_of(kept.shape, 1) == 2);
  std::map<std::uint64_t, StateInventory> inventory{
      {100, {.step = 7, .copies = {{0, 3}, {0, 6}, {2, 3}, {2, 6}}}},
      {102, {.step = 8, .has_previous = true, .copies = {{2, 3}, {2, 6}, {1, 3}}}}};
  const auto plan = plan_state(spec, kept, next, inventory, 7);
  BOOST_REQUIRE(plan);
  BOOST_TEST(plan->step == 3);
  BOOST_TEST(!plan->moves.empty());
  for (const StateMove& move : plan->moves) BOOST_TEST(move.copy_of >= 0);
  inventory.at(102).copies.push_back({1, 6});
  BOOST_TEST(plan_state(spec, kept, next, inventory, 7)->step == 6);
  inventory.at(102).copies.clear();
  BOOST_TEST(!plan_state(spec, kept, next, inventory, 7));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::actors
