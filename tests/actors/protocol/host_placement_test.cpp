#include "actors/protocol/hosts/host_placement.h"

#include <boost/test/unit_test.hpp>
#include <string>

#include "tests/support/run_specs.h"

// Which hosts the ranks of a configuration go to when some of its workers are gone.

namespace troupe::actors {

BOOST_AUTO_TEST_SUITE(host_placement_test)

namespace {

/// A configuration whose ranks are on these hosts, and what is left of it.
struct Cluster {
  Cluster(const RunSpec::Mesh& mesh, const std::vector<std::string>& hosts) {
    RunSpec spec = test::small_run();
    spec.mesh = mesh;
    kept = {.run = 1, .number = 1, .shape = first_shape(spec), .members = {}};
    for (const std::string& host : hosts) {
      const Member member = roster.spawn(1, host);
      roster.join(member);
      kept.members.push_back(roster.find(member.incarnation)->member);
    }
  }
  void lose(int rank) { roster.forget(kept.members.at(rank).incarnation); }
  /// "a b -": the host of each rank.
  std::string place(const std::vector<HostTable::Entry>& hosts, const PlacementRules& rules = {}) {
    const auto placement = place_target({.shape = kept.shape, .replicas = {}, .hosts = {}}, kept,
                                        roster, hosts, rules);
    std::string text;
    for (std::size_t rank = 0; rank < placement.hosts.size(); ++rank)
      text += (rank > 0 ? " " : "") +
              (placement.homeless.contains(static_cast<int>(rank)) ? "-" : placement.hosts[rank]);
    return text;
  }

  Roster roster{7};
  Configuration kept;
};

HostTable::Entry host(const std::string& name, int slots, HostState state = HostState::joined) {
  return {.host = {.name = name, .slots = slots}, .state = state};
}

}  // namespace

BOOST_AUTO_TEST_CASE(who_is_left_stays_and_who_ended_comes_back_to_the_same_host) {
  Cluster cluster({.pp = 3}, {"a", "b", "c"});
  cluster.lose(1);
  const auto spare = host("d", 3, HostState::spare);
  BOOST_TEST(cluster.place({host("a", 3), host("b", 1), host("c", 1), spare}) == "a b c");
}

BOOST_AUTO_TEST_CASE(stages_of_a_lost_host_go_side_by_side_to_a_spare_one) {
  Cluster cluster({.pp = 4}, {"a", "b", "b", "c"});
  cluster.lose(1);
  cluster.lose(2);
  const auto d = host("d", 2, HostState::spare), e = host("e", 2, HostState::spare);
  BOOST_TEST(cluster.place({host("a", 4), host("c", 4), d, e}) == "a d d c");
  BOOST_TEST(cluster.place({host("a", 2), host("c", 3)}) == "a c c c");
}

BOOST_AUTO_TEST_CASE(a_process_that_waits_is_used_before_another_is_started) {
  Cluster cluster({.pp = 2}, {"a", "b"});
  cluster.lose(1);
  cluster.roster.spawn(1, "d");
  BOOST_TEST(cluster.place({host("a", 1), host("c", 4), host("d", 1)}) == "a d");
}

BOOST_AUTO_TEST_CASE(the_shards_of_a_stage_move_together_unless_they_may_be_apart) {
  Cluster cluster({.pp = 2, .tp = 2}, {"a", "a", "b", "b"});
  cluster.lose(2);
  cluster.lose(3);
  BOOST_TEST(cluster.place({host("a", 3), host("c", 1)}) == "a a - -");
  BOOST_TEST(cluster.place({host("a", 3), host("c", 1)}, {.hosts = {.tp_across_hosts = true}}) ==
             "a a a c");
  BOOST_TEST(cluster.place({host("a", 3), host("c", 2)}) == "a a c c");
}

BOOST_AUTO_TEST_CASE(whole_replicas_come_first_where_not_all_have_room) {
  Cluster cluster({.pp = 2, .dp = 2}, {"a", "b", "b", "c"});
  for (const int rank : {1, 2}) cluster.lose(rank);
  BOOST_TEST(cluster.place({host("a", 2), host("c", 1)}) == "a a - c");
  Cluster other({.pp = 2, .dp = 2}, {"a", "b", "b", "b"});
  for (const int rank : {1, 2, 3}) other.lose(rank);
  BOOST_TEST(other.place({host("a", 1), host("d", 1)}) == "a d - -");
}

BOOST_AUTO_TEST_CASE(without_replacements_only_spare_hosts_take_ranks_of_lost_ones) {
  Cluster cluster({.pp = 3}, {"a", "b", "c"});
  cluster.lose(1);
  cluster.lose(2);
  const std::vector without{host("a", 3), host("c", 1)};
  BOOST_TEST(cluster.place(without, {.replaces = false}) == "a - -");
  const std::vector with{host("a", 3), host("c", 1), host("d", 1, HostState::spare)};
  BOOST_TEST(cluster.place(with, {.replaces = false}) == "a d -");
}

BOOST_AUTO_TEST_CASE(stages_stay_on_hosts_of_their_own) {
  Cluster cluster({.pp = 2, .dp = 2}, {"a", "b", "a", "b"});
  const HostRules own{.stage_hosts = {{}, {"b", "c"}}};
  cluster.lose(1);
  cluster.lose(3);
  const auto d = host("d", 4, HostState::spare);
  BOOST_TEST(cluster.place({host("a", 4), host("c", 2), d}, {.hosts = own}) == "a c a c");
  BOOST_TEST(cluster.place({host("a", 4), host("c", 1), d}, {.hosts = own}) == "a c a -");
  BOOST_TEST(cluster.place({host("a", 4), d}, {.hosts = own}) == "a - a -");
  // Those who are left make room where there is no other.
  Cluster other({.pp = 2}, {"a", "b"});
  other.lose(1);
  const HostRules narrow{.stage_hosts = {{"a", "d"}, {"a"}}};
  BOOST_TEST(other.place({host("a", 1), d}, {.hosts = narrow}) == "d a");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::actors
