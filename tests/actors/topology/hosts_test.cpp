#include "actors/topology/hosts.h"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <numeric>
#include <set>

#include "actors/topology/configuration.h"
#include "tests/support/expect_error.h"
#include "tests/support/mutate.h"
#include "tests/support/seed.h"

namespace troupe::actors {

BOOST_AUTO_TEST_SUITE(hosts_test)

namespace {

using Places = std::vector<int>;

std::vector<Host> hosts_with(const std::vector<int>& slots) {
  std::vector<Host> hosts;
  for (const int n : slots)
    hosts.push_back({.name = std::string(1, static_cast<char>('a' + hosts.size())), .slots = n});
  return hosts;
}

/// That stages which follow each other are adjacent, and that replicas which do are apart if each
/// lies on one host and no host has more than half of them. `used`: the ranks of each host.
void check_neighbours(const RunSpec::Mesh& mesh, const Places& places,
                      const std::vector<int>& used) {
  const auto of_replica = static_cast<std::size_t>(mesh.ranks_of_replica());
  bool whole = true;
  for (std::size_t first = 0; first < places.size(); first += of_replica) {
    const auto begin = places.begin() + static_cast<std::ptrdiff_t>(first);
    BOOST_TEST(std::is_sorted(begin, begin + mesh.ranks_of_replica()));
    whole = whole && *begin == places[first + of_replica - 1];
  }
  if (!whole || 2 * std::ranges::max(used) > mesh.num_ranks()) return;
  for (std::size_t first = 0; first < places.size(); first += of_replica)
    BOOST_TEST(places[first] != places[(first + of_replica) % places.size()]);
}

Places place(const RunSpec::Mesh& mesh, const std::vector<int>& slots, bool across = false) {
  return place_ranks(mesh, hosts_with(slots), {.tp_across_hosts = across});
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_run_without_hosts_is_on_this_machine) {
  BOOST_TEST(place({.pp = 2, .dp = 2}, {}) == Places(4), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(neighbouring_stages_are_adjacent_and_hosts_are_used_alike) {
  BOOST_TEST((place({.pp = 4}, {2, 2}) == Places{0, 0, 1, 1}));
  BOOST_TEST((place({.pp = 4}, {8, 8}) == Places{0, 0, 1, 1}));
  BOOST_TEST((place({.pp = 5}, {4, 1, 2}) == Places{0, 0, 1, 2, 2}));
  BOOST_TEST((place({.pp = 2}, {1, 1, 1}) == Places{0, 1}));
}

BOOST_AUTO_TEST_CASE(uneven_hosts_are_used_fully) {
  BOOST_TEST((place({.pp = 7}, {4, 1, 2}) == Places{0, 0, 0, 0, 1, 2, 2}));
  BOOST_TEST((place({.pp = 1, .dp = 3}, {0, 2, 1}) == Places{1, 2, 1}));
}

BOOST_AUTO_TEST_CASE(shards_of_a_stage_are_on_one_host) {
  BOOST_TEST((place({.pp = 2, .tp = 2}, {2, 2}) == Places{0, 0, 1, 1}));
  BOOST_TEST((place({.pp = 3, .tp = 2}, {3, 5}) == Places{0, 0, 1, 1, 1, 1}));
}

BOOST_AUTO_TEST_CASE(a_replica_is_on_one_host_if_no_host_gets_busier) {
  BOOST_TEST((place({.pp = 2, .dp = 2}, {2, 2}) == Places{0, 0, 1, 1}));
  BOOST_TEST((place({.pp = 2, .dp = 3}, {2, 4}) == Places{1, 1, 0, 0, 1, 1}));
  // Whole replicas would be on two of the hosts alone.
  BOOST_TEST((place({.pp = 2, .dp = 2}, {2, 2, 2, 2}) == Places{0, 1, 2, 3}));
  // 6 stages, whose replicas would be 4 and 2 on the hosts.
  BOOST_TEST((place({.pp = 2, .dp = 3}, {4, 4}) == Places{0, 0, 0, 1, 1, 1}));
}

BOOST_AUTO_TEST_CASE(replicas_that_follow_each_other_are_apart_and_instances_together) {
  BOOST_TEST((place({.dp = 4}, {2, 2}) == Places{0, 1, 0, 1}));
  BOOST_TEST((place({.dp = 5}, {2, 2, 1}) == Places{0, 1, 0, 2, 1}));
  BOOST_TEST((place_ranks({.dp = 4}, hosts_with({2, 2}), {.instances = 2}) == Places{0, 0, 1, 1}));
}

BOOST_AUTO_TEST_CASE(shards_are_across_hosts_only_where_they_must_and_may) {
  BOOST_TEST((place({.tp = 2}, {1, 1}, true) == Places{0, 1}));
  BOOST_TEST((place({.pp = 2, .tp = 2}, {3, 3}, true) == Places{0, 0, 1, 1}));
  BOOST_TEST((place({.pp = 3, .tp = 2}, {3, 3}, true) == Places{0, 0, 0, 1, 1, 1}));
}

BOOST_AUTO_TEST_CASE(a_mesh_without_room_is_refused_with_the_numbers) {
  test::expect_error(ErrorKind::unavailable,
                     {"4 ranks (pp 4 x dp 1)", "3 slots of 2 hosts: a 2, b 1"}, [] {
                       place({.pp = 4}, {2, 1});
                     });
  test::expect_error(ErrorKind::unavailable,
                     {"tp = 2", "2 slots of 2 hosts: a 1, b 1", "room for 0 of 1 stage",
                      "a multiple of 2 slots", "mesh.tp_across_hosts"},
                     [] {
                       place({.tp = 2}, {1, 1});
                     });
  test::expect_error(ErrorKind::unavailable, {"h 1 and 2 more"}, [] {
    place({.pp = 11}, {1, 1, 1, 1, 1, 1, 1, 1, 1, 1});
  });
}

using StageHosts = std::vector<std::vector<std::string>>;

Places place_stages_on(const RunSpec::Mesh& mesh, const std::vector<int>& slots,
                       const StageHosts& stage_hosts, bool across = false) {
  return place_ranks(mesh, hosts_with(slots),
                     {.tp_across_hosts = across, .stage_hosts = stage_hosts});
}

BOOST_AUTO_TEST_CASE(stages_lie_on_hosts_of_their_own) {
  BOOST_TEST((place_stages_on({.pp = 2}, {2, 2}, {{"b"}, {"a"}}) == Places{1, 0}));
  // Replicas of a stage are apart; a stage without hosts lies beside its neighbour.
  BOOST_TEST(
      (place_stages_on({.pp = 2, .dp = 2}, {2, 2, 2}, {{"b", "c"}, {}}) == Places{1, 1, 2, 2}));
  // The first stage gives way to the second, which may lie on one host alone.
  BOOST_TEST((place_stages_on({.pp = 2}, {1, 1}, {{}, {"a"}}) == Places{1, 0}));
  BOOST_TEST(
      (place_stages_on({.pp = 3}, {1, 1, 1}, {{"a", "b"}, {"b", "c"}, {"a"}}) == Places{1, 2, 0}));
  BOOST_TEST((place_stages_on({.pp = 2, .tp = 2}, {1, 2, 1}, {{"b"}, {"a", "c"}}, true) ==
              Places{1, 1, 2, 0}));
  RunSpec::Mesh uneven{.pp = 2};
  uneven.set_widths({{.dp = 2}, {.dp = 1}});
  BOOST_TEST((place_stages_on(uneven, {1, 1, 1}, {{"a", "c"}, {"b"}}) == Places{0, 1, 2}));
  // They say nothing of a mesh of other stages.
  BOOST_TEST((place_stages_on({.pp = 1}, {1, 1}, {{"b"}, {"b"}}) == Places{0}));
}

BOOST_AUTO_TEST_CASE(a_stage_that_does_not_fit_its_hosts_is_refused_with_both_numbers) {
  test::expect_error(ErrorKind::unavailable,
                     {"stage 1 has 4 ranks (dp 2 x tp 2)", "3 slots: b 1, c 2"}, [] {
                       place_stages_on({.pp = 2, .dp = 2, .tp = 2}, {8, 1, 2}, {{}, {"b", "c"}});
                     });
  test::expect_error(ErrorKind::unavailable, {"stage 0 has 1 rank", "0 slots"}, [] {
    place_stages_on({.pp = 2}, {8, 8}, {{"x"}, {}});
  });
  test::expect_error(ErrorKind::unavailable, {"2 ranks", "3 slots of 2 hosts", "[[stage]] hosts"},
                     [] {
                       place_stages_on({.pp = 2}, {1, 2}, {{"a"}, {"a"}});
                     });
  RunSpec spec;
  spec.cluster.stage_hosts = {{"a"}};
  test::expect_error(ErrorKind::manifest, {"cluster.hosts"}, [&] { place_ranks(spec); });
}

// Whatever stages may lie on, no host has more ranks than slots, and nobody lies elsewhere. Blocks
// of one rank find a place wherever there is one, by Hall's theorem.
BOOST_AUTO_TEST_CASE(any_hosts_of_stages) {
  std::mt19937_64 random(test::fresh_seed());
  int refused = 0;
  for (int round = 0; round < 3000; ++round) {
    const int pp = 1 + static_cast<int>(test::below(random, 4));
    std::vector<RunSpec::Width> widths;
    for (int stage = 0; stage < pp; ++stage)
      widths.push_back({.dp = 1 + static_cast<int>(test::below(random, 2))});
    RunSpec::Mesh mesh{.pp = pp};
    mesh.set_widths(widths);
    std::vector<int> slots(1 + test::below(random, 4));
    for (int& n : slots) n = static_cast<int>(test::below(random, 4));
    StageHosts own(static_cast<std::size_t>(pp));
    for (auto& hosts : own)
      for (const Host& host : hosts_with(slots))
        if (test::below(random, 2) == 0) hosts.push_back(host.name);
    const HostRules rules{.stage_hosts = own};
    const auto room_of = [&](std::size_t stages) {  // a set of stages, by bits
      int room = 0;
      for (const Host& host : hosts_with(slots))
        for (int stage = 0; stage < pp; ++stage)
          if ((stages >> stage & 1) != 0 && rules.allows(mesh, stage, host.name)) {
            room += host.slots;
            break;
          }
      return room;
    };
    bool fits = true;
    for (std::size_t stages = 1; stages < std::size_t{1} << pp; ++stages) {
      int ranks = 0;
      for (int stage = 0; stage < pp; ++stage)
        ranks += (stages >> stage & 1) != 0 ? mesh.width(stage).dp : 0;
      fits = fits && ranks <= room_of(stages);
    }
    if (!fits) {
      ++refused;
      test::expect_error(ErrorKind::unavailable, {}, [&] { place_stages_on(mesh, slots, own); });
      continue;
    }
    const Places places = place_stages_on(mesh, slots, own);
    std::vector<int> used(slots.size());
    for (int rank = 0; rank < mesh.num_ranks(); ++rank) {
      const auto host = static_cast<std::size_t>(places.at(static_cast<std::size_t>(rank)));
      BOOST_TEST(++used.at(host) <= slots.at(host));
      BOOST_TEST(rules.allows(mesh, place_of(mesh, rank).stage, hosts_with(slots)[host].name));
    }
  }
  BOOST_TEST((refused > 100 && refused < 2900));
}

BOOST_AUTO_TEST_CASE(any_hosts_and_meshes) {
  const std::uint64_t seed = test::fresh_seed();
  std::mt19937_64 random(seed);
  const auto number = [&](std::size_t most) {
    return 1 + static_cast<int>(test::below(random, most));
  };
  for (int round = 0; round < 20000; ++round) {
    const RunSpec::Mesh mesh{.pp = number(6), .dp = number(4), .tp = number(4)};
    const bool across = number(2) == 2;
    std::vector<int> slots(static_cast<std::size_t>(number(6)));
    for (int& n : slots) n = number(12);
    const auto room = [&](int size) {
      return std::transform_reduce(slots.begin(), slots.end(), 0, std::plus<>{},
                                   [&](int n) { return n / size; });
    };
    BOOST_TEST_CONTEXT("TROUPE_TEST_SEED=" << seed << " round " << round) {
      const bool stages_fit = room(mesh.tp) >= mesh.dp * mesh.pp;
      if (!stages_fit && !(across && room(1) >= mesh.num_ranks())) {
        test::expect_error(ErrorKind::unavailable, {}, [&] { place(mesh, slots, across); });
        continue;
      }
      const Places places = place(mesh, slots, across);
      BOOST_TEST(std::ssize(places) == mesh.num_ranks());
      std::vector<int> used(slots.size());
      for (const int host : places) ++used.at(static_cast<std::size_t>(host));
      for (std::size_t i = 0; i < slots.size(); ++i) BOOST_TEST(used[i] <= slots[i]);
      check_neighbours(mesh, places, used);
      for (int rank = 0; stages_fit && rank < mesh.num_ranks(); ++rank)
        BOOST_TEST(places[static_cast<std::size_t>(rank)] ==
                   places[static_cast<std::size_t>(rank / mesh.tp * mesh.tp)]);
      // No other placement of whole stages has a busiest host with fewer ranks.
      const int busiest = std::ranges::max(used), unit = stages_fit ? mesh.tp : 1;
      int room_below = 0;
      for (const int n : slots) room_below += std::min(n / unit, busiest / unit - 1);
      BOOST_TEST(room_below < mesh.num_ranks() / unit);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::actors
