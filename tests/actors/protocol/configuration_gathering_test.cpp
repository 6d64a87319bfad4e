#include "actors/protocol/configuration_gathering.h"

#include <boost/test/unit_test.hpp>

#include "tests/support/run_specs.h"

namespace troupe::actors {

BOOST_AUTO_TEST_SUITE(configuration_gathering_test)

namespace {

/// A cluster whose ranks have reached configuration 1, the workers in the order of their ranks.
struct Cluster {
  explicit Cluster(int pp, int dp = 1)
      : gathering(first_shape(test::small_run(pp, dp))), roster(7) {
    for (int rank = 0; rank < pp * dp; ++rank) join();
    BOOST_REQUIRE(gathering.open(roster));
    halt_all();
    BOOST_REQUIRE(gathering.count({}, roster));
    kept = gathering.configuration({}, roster);
  }
  std::uint64_t join() {
    const Member member = roster.spawn();
    roster.join(member);
    workers.push_back(member.incarnation);
    return member.incarnation;
  }
  void halt_all() {
    for (const auto worker : workers)
      if (roster.contains(worker)) gathering.on_halted(worker, {.step = 4});
  }

  ConfigurationGathering gathering;
  Roster roster;
  std::vector<std::uint64_t> workers;
  Configuration kept;
};

ClusterShape shape(int pp, int dp = 1) {
  return first_shape(test::small_run(pp, dp));
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_configuration_waits_for_every_answer_and_every_rank) {
  Cluster cluster(2);
  cluster.roster.forget(cluster.workers[1]);
  BOOST_TEST(cluster.gathering.open(cluster.roster));
  BOOST_TEST(cluster.gathering.number() == 2u);
  BOOST_TEST(!cluster.gathering.count(cluster.kept, cluster.roster));
  BOOST_TEST(cluster.gathering.missing(cluster.roster) == std::vector{cluster.workers[0]});
  cluster.halt_all();
  BOOST_TEST(!cluster.gathering.count(cluster.kept, cluster.roster), "nobody has rank 1");
  const auto newcomer = cluster.join();
  BOOST_TEST(cluster.gathering.count(cluster.kept, cluster.roster));
  const Configuration next = cluster.gathering.configuration(cluster.kept, cluster.roster);
  BOOST_TEST(next.number == 2u);
  BOOST_TEST(next.rank_of(cluster.workers[0]) == 0);
  BOOST_TEST(next.rank_of(newcomer) == 1);
  BOOST_TEST(cluster.gathering.inventories(cluster.roster).size() == 1u);
}

BOOST_AUTO_TEST_CASE(nobody_is_asked_where_nobody_has_joined) {
  Roster roster(7);
  roster.spawn();
  ConfigurationGathering gathering(shape(1));
  BOOST_TEST(!gathering.open(roster));
}

BOOST_AUTO_TEST_CASE(a_worker_that_is_leaving_is_neither_awaited_nor_assigned) {
  Cluster cluster(2);
  const auto spare = cluster.join();
  cluster.gathering.open(cluster.roster);
  cluster.gathering.on_halted(cluster.workers[0], {});
  cluster.gathering.on_halted(cluster.workers[1], {});
  BOOST_TEST(!cluster.gathering.count(cluster.kept, cluster.roster));
  cluster.roster.leave(spare);
  BOOST_TEST(cluster.gathering.count(cluster.kept, cluster.roster));
  cluster.roster.forget(cluster.workers[0]);
  cluster.gathering.count(cluster.kept, cluster.roster);
  BOOST_TEST(cluster.gathering.rank_of(spare) == -1);
}

BOOST_AUTO_TEST_CASE(a_member_keeps_its_place_and_a_spare_takes_the_free_one) {
  Cluster cluster(4);
  const auto spare = cluster.join();
  cluster.roster.forget(cluster.workers[2]);
  const RankAssignment expected{cluster.workers[0], cluster.workers[1], spare, cluster.workers[3]};
  BOOST_TEST(assign_ranks({.shape = shape(4)}, cluster.kept, cluster.roster) == expected);
  BOOST_TEST((lost_ranks(cluster.kept, cluster.roster) == std::set{2}));
}

BOOST_AUTO_TEST_CASE(fewer_stages_close_ranks_only_where_all_have_a_place) {
  Cluster cluster(4);
  cluster.roster.forget(cluster.workers[1]);
  const RankAssignment closed{cluster.workers[0], cluster.workers[2], cluster.workers[3]};
  BOOST_TEST(assign_ranks({.shape = shape(3)}, cluster.kept, cluster.roster) == closed);
  const RankAssignment gap{cluster.workers[0], 0};
  BOOST_TEST(assign_ranks({.shape = shape(2)}, cluster.kept, cluster.roster) == gap);
}

BOOST_AUTO_TEST_CASE(a_replica_continues_the_one_that_it_is_said_to) {
  Cluster cluster(2, 2);
  cluster.roster.forget(cluster.workers[0]);
  const RankAssignment second{cluster.workers[2], cluster.workers[3]};
  BOOST_TEST(assign_ranks({.shape = shape(2), .replicas = {1}}, cluster.kept, cluster.roster) ==
             second);
}

BOOST_AUTO_TEST_CASE(who_loses_its_rank_gives_its_state_away_beyond_the_ranks) {
  Cluster cluster(4);
  cluster.gathering.aim_at({.shape = shape(2)});
  cluster.gathering.open(cluster.roster);
  cluster.halt_all();
  BOOST_TEST(cluster.gathering.count(cluster.kept, cluster.roster));
  const Configuration next = cluster.gathering.configuration(cluster.kept, cluster.roster);
  BOOST_TEST(next.num_ranks() == 2);
  BOOST_TEST(next.members.size() == 4);
  BOOST_TEST(next.rank_of(cluster.workers[3]) == 3);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::actors
