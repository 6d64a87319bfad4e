#include "actors/protocol/roster.h"

#include <boost/test/unit_test.hpp>
#include <random>
#include <set>
#include <vector>

namespace troupe::actors {

BOOST_AUTO_TEST_SUITE(roster_test)

BOOST_AUTO_TEST_CASE(a_worker_is_expected_until_it_joins_and_joins_once) {
  Roster roster(7);
  const Member spawned = roster.spawn();
  BOOST_TEST(roster.expects(spawned.incarnation));
  BOOST_TEST(!roster.has_joined(spawned.incarnation));
  const Member claims{.id = 5, .incarnation = spawned.incarnation, .pid = 12};
  BOOST_TEST(roster.join(claims));
  BOOST_TEST(roster.find(spawned.incarnation)->member.pid == 12);
  BOOST_TEST(roster.find(spawned.incarnation)->member.id == spawned.id, "its id is ours to give");
  BOOST_TEST(!roster.expects_any());
  BOOST_TEST(!roster.join(claims));
  BOOST_TEST(!roster.join({.id = 0, .incarnation = spawned.incarnation + 1}));
}

BOOST_AUTO_TEST_CASE(a_worker_that_is_told_to_end_is_there_but_does_not_stay) {
  Roster roster(7);
  const std::uint64_t incarnation = roster.spawn().incarnation;
  BOOST_TEST(roster.stays(incarnation));
  roster.leave(incarnation);
  BOOST_TEST(!roster.stays(incarnation));
  BOOST_TEST(roster.contains(incarnation));
  roster.forget(incarnation);
  BOOST_TEST(roster.empty());
}

BOOST_AUTO_TEST_CASE(deaths_before_joining_are_counted_until_somebody_joins) {
  Roster roster(7);
  for (int deaths = 1; deaths <= 3; ++deaths) {
    roster.forget(roster.spawn().incarnation);
    BOOST_TEST(roster.num_failed_spawns() == deaths);
  }
  const Member member = roster.spawn();
  roster.join(member);
  BOOST_TEST(roster.num_failed_spawns() == 0);
  roster.forget(member.incarnation);
  BOOST_TEST(roster.num_failed_spawns() == 0, "it had joined");
}

/// A process on a host that is lost may still run there.
BOOST_AUTO_TEST_CASE(nobody_gets_the_id_of_a_worker_whose_host_is_lost) {
  Roster roster(7);
  const Member lost = roster.spawn(0, "h1"), dead = roster.spawn(0, "h0");
  BOOST_TEST(roster.on_host("h1") == std::vector{lost.incarnation},
             boost::test_tools::per_element());
  roster.abandon(lost.incarnation);
  roster.forget(dead.incarnation);
  BOOST_TEST(roster.on_host("h1").empty());
  BOOST_TEST(roster.spawn(0, "h0").id == dead.id);
  BOOST_TEST(roster.spawn(0, "h0").id == 2);
}

BOOST_AUTO_TEST_CASE(a_worker_is_on_the_host_on_which_it_was_started) {
  Roster roster(7);
  const Member spawned = roster.spawn(0, "h1");
  roster.join({.id = 0, .incarnation = spawned.incarnation, .host = "its own name"});
  BOOST_TEST(roster.find(spawned.incarnation)->member.host == "h1");
}

BOOST_AUTO_TEST_CASE(ids_are_the_lowest_free_ones_and_incarnations_never_come_again) {
  const auto seed = std::random_device{}();
  BOOST_TEST_MESSAGE("seed " << seed);
  std::mt19937 random(seed);
  Roster roster(seed);
  std::set<std::uint64_t> seen;
  std::vector<Member> alive;
  for (int turn = 0; turn < 1000; ++turn) {
    if (!alive.empty() && random() % 3 == 0) {
      const auto dead = alive.begin() + static_cast<std::ptrdiff_t>(random() % alive.size());
      roster.forget(dead->incarnation);
      alive.erase(dead);
      continue;
    }
    const Member member = roster.spawn();
    BOOST_REQUIRE(seen.insert(member.incarnation).second);
    std::set<int> taken;
    for (const Member& other : alive) taken.insert(other.id);
    int lowest = 0;
    while (taken.contains(lowest)) ++lowest;
    BOOST_REQUIRE(member.id == lowest);
    alive.push_back(member);
  }
}

BOOST_AUTO_TEST_CASE(runs_of_other_seeds_have_other_numbers) {
  BOOST_TEST(Roster(1).run() != Roster(2).run());
  BOOST_TEST(Roster(1).run() == Roster(1).run());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::actors
