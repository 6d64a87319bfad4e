#include "actors/director/configuration_orders.h"

#include <boost/test/unit_test.hpp>
#include <caf/actor_system.hpp>
#include <caf/binary_serializer.hpp>
#include <set>

#include "actors/messages/control_plane.h"
#include "actors/worker/rank_configuration.h"
#include "tests/support/run_specs.h"

namespace troupe::actors {

BOOST_AUTO_TEST_SUITE(configuration_orders_test)

namespace {

/// Most bytes of a control message.
constexpr std::size_t kMostBytes = 64 * 1024;

Member some_member(int rank) {
  return {.id = rank,
          .incarnation = static_cast<std::uint64_t>(rank) + 100,
          .host = "a-host-with-a-name-of-usual-length",
          .address = std::string(400, 'x')};
}

RunSpec run_of(int pp, int dp) {
  RunSpec spec = test::small_run(pp, dp);
  spec.model.num_hidden_layers = pp;
  spec.batch.global = 8 * dp * spec.batch.micro;
  return spec;
}

/// A configuration of all ranks and one member that leaves, which gives every rank its state.
EnterConfiguration whole_configuration(const RunSpec& spec) {
  EnterConfiguration whole{
      .configuration = {.run = 1, .number = 3, .shape = first_shape(spec), .members = {}},
      .start = {.state = {.step = 5, .from_memory = true}, .checkpoint = "c", .saves_only = true}};
  const int ranks = whole.configuration.num_ranks();
  for (int rank = 0; rank <= ranks; ++rank)
    whole.configuration.members.push_back(some_member(rank));
  for (int rank = 0; rank < ranks; ++rank) {
    whole.start.state.moves.push_back({.unit = rank, .from = rank, .to = rank});
    whole.start.state.copied.push_back(rank);
  }
  whole.start.state.moves.push_back({.unit = 0, .from = ranks, .to = 1});
  return whole;
}

/// The ranks that the messages name, each of them once.
std::set<int> ranks_in(const std::vector<caf::message>& messages) {
  std::set<int> ranks;
  for (const caf::message& message : messages)
    for (const auto& [rank, member] : message.get_as<Peers>(0).members) {
      BOOST_REQUIRE(member.incarnation == some_member(rank).incarnation);
      BOOST_REQUIRE(ranks.insert(rank).second);
    }
  return ranks;
}

/// The moves that the messages hold, in their order.
std::vector<StateMove> moves_in(const std::vector<Moves>& messages) {
  std::vector<StateMove> moves;
  for (const Moves& message : messages) {
    BOOST_TEST(message.configuration == 3u);
    moves.insert(moves.end(), message.moves.begin(), message.moves.end());
  }
  return moves;
}

std::size_t bytes_of(caf::actor_system& system, caf::message message) {
  std::vector<char> bytes;
  caf::binary_serializer sink{system, bytes};
  BOOST_REQUIRE(!sink(message));
  return bytes.size();
}

void check_orders(int pp, int dp) {
  const RunSpec spec = run_of(pp, dp);
  const EnterConfiguration whole = whole_configuration(spec);
  const ConfigurationOrders orders(spec, whole);
  const Assembly assembly = assemble(spec, whole.configuration.shape);
  const int ranks = whole.configuration.num_ranks();
  for (int rank = 0; rank < ranks; ++rank) {
    const RankAssembly part = part_of_run(assembly, spec, whole.configuration.shape, rank);
    std::set<int> known = peers_of(part);
    known.insert(rank);
    if (rank == 1) known.insert(ranks);  // the leaving member gives it its state
    BOOST_TEST(ranks_in(orders.peers_of(rank)) == known, boost::test_tools::per_element());
    const BeginConfiguration order = orders.begin_of(rank);
    BOOST_TEST(order.start.digest == assembly.digest);
    BOOST_TEST(order.configuration.number == 3u);
    BOOST_TEST((order.configuration.shape == whole.configuration.shape));
    BOOST_TEST(order.start.state.step == 5);
    BOOST_TEST(order.start.checkpoint == "c");
    BOOST_TEST(order.start.saves_only);
    BOOST_TEST(order.start.state.moves.empty());
    const auto moves = moves_in(orders.moves_of(rank));
    BOOST_TEST(moves.size() == (rank == 1 ? 2u : 1u));
    for (const StateMove& move : moves) BOOST_TEST(move.to == rank);
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_member_is_told_of_those_it_has_to_do_with) {
  check_orders(4, 2);
  check_orders(3, 100);  // so many replicas that they get the same messages
}

BOOST_AUTO_TEST_CASE(ranks_are_told_their_neighbours_on_the_ring_of_copies) {
  const RunSpec spec = run_of(4, 1);
  EnterConfiguration whole = whole_configuration(spec);
  Configuration& configuration = whole.configuration;
  BOOST_TEST((ConfigurationOrders(spec, whole).begin_of(0).start.ring == CopyRing{}));
  configuration.members = {};
  for (int rank = 0; rank <= 4; ++rank) {
    Member member = some_member(rank);
    member.host = rank < 2 ? "a" : "b";
    configuration.members.push_back(member);
  }
  const ConfigurationOrders orders(spec, whole);
  const auto ring = [&](int rank) { return orders.begin_of(rank).start.ring.keepers; };
  BOOST_TEST((ring(0) == std::map<int, int>{{0, 2}, {2, 0}}));
  BOOST_TEST((ring(3) == std::map<int, int>{{3, 1}, {1, 3}}));
  BOOST_TEST((ring(4).empty()));  // it leaves
  BOOST_TEST((orders.begin_of(0).start.state.copied == std::vector{2, 0}));
  BOOST_TEST((ranks_in(orders.peers_of(0)) == std::set{0, 1, 2}));
}

BOOST_AUTO_TEST_CASE(cores_are_used_as_they_suffice_for_the_ranks_of_a_machine) {
  const RunSpec::Cluster open{.pin = std::nullopt, .spin = std::nullopt, .cores = 4};
  BOOST_TEST((core_use(open, 2) == CoreUse{.pin = true, .spin = true}));
  BOOST_TEST((core_use(open, 3) == CoreUse{.pin = true, .spin = false}));
  BOOST_TEST((core_use(open, 4) == CoreUse{.pin = true, .spin = false}));
  BOOST_TEST((core_use(open, 6) == CoreUse{.pin = false, .spin = false}));
  const RunSpec::Cluster given{.pin = true, .spin = true, .cores = 1};
  BOOST_TEST((core_use(given, 4) == CoreUse{.pin = true, .spin = true}));
}

BOOST_AUTO_TEST_CASE(ranks_are_told_their_place_among_those_of_their_host) {
  const RunSpec spec = run_of(3, 2);
  EnterConfiguration whole = whole_configuration(spec);
  const auto share_of = [&](int rank) {
    return ConfigurationOrders(spec, whole).begin_of(rank).start.host;
  };
  for (int rank = 0; rank < 6; ++rank)  // the seventh member leaves
    BOOST_TEST((share_of(rank) == HostShare{.ranks = 6, .place = rank}));
  // The worker with the highest id has come to another host, and takes the place of rank 1.
  for (const int rank : {2, 4, 5}) {
    Member member = whole.configuration.members.at(rank);
    member.host = "big";
    whole.configuration.members.add(rank, member);
  }
  Member last = some_member(9);
  last.host = "big";
  whole.configuration.members.add(1, last);
  const std::vector<HostShare> expected{{.ranks = 2, .place = 0}, {.ranks = 4, .place = 3},
                                        {.ranks = 4, .place = 0}, {.ranks = 2, .place = 1},
                                        {.ranks = 4, .place = 1}, {.ranks = 4, .place = 2}};
  for (int rank = 0; rank < 6; ++rank)
    BOOST_TEST((share_of(rank) == expected[static_cast<std::size_t>(rank)]), rank);
}

BOOST_AUTO_TEST_CASE(what_many_replicas_are_told_is_made_once) {
  const RunSpec spec = run_of(2, 100);
  const ConfigurationOrders orders(spec, whole_configuration(spec));
  const auto one = orders.peers_of(5), another = orders.peers_of(7),
             of_another_stage = orders.peers_of(8);
  BOOST_TEST(one.back().cvals().get() == another.back().cvals().get());
  BOOST_TEST(one.back().cvals().get() != of_another_stage.back().cvals().get());
}

BOOST_AUTO_TEST_CASE(who_leaves_is_told_to_whom_it_gives) {
  const RunSpec spec = run_of(4, 2);
  const ConfigurationOrders orders(spec, whole_configuration(spec));
  BOOST_TEST(ranks_in(orders.peers_of(8)) == (std::set<int>{1, 8}),
             boost::test_tools::per_element());
  BOOST_TEST(
      (moves_in(orders.moves_of(8)) == std::vector<StateMove>{{.unit = 0, .from = 8, .to = 1}}));
  BOOST_TEST(orders.begin_of(8).start.digest == 0u);
}

BOOST_AUTO_TEST_CASE(a_stage_knows_whether_its_copy_and_its_neighbours_are_there_already) {
  const RunSpec spec = run_of(4, 1);
  const ConfigurationOrders orders(spec, whole_configuration(spec));
  BOOST_TEST(orders.begin_of(2).start.state.copied == (std::vector<int>{1, 2}),
             boost::test_tools::per_element());
  BOOST_TEST(ranks_in(orders.peers_of(2)) == (std::set<int>{1, 2, 3}),
             boost::test_tools::per_element());
}

/// Holds for any cut of the ranks. The whole configuration, of which an order is a part, grows with
/// the ranks.
BOOST_AUTO_TEST_CASE(no_order_of_ten_thousand_ranks_is_large) {
  ControlPlaneConfig config(1);
  caf::actor_system system{config};
  for (const auto& [pp, dp] :
       {std::pair{10'000, 1}, std::pair{1000, 10}, std::pair{100, 100}, std::pair{10, 1000}}) {
    const RunSpec spec = run_of(pp, dp);
    const ConfigurationOrders orders(spec, whole_configuration(spec));
    for (const int member : {0, 1, pp / 2, pp * dp - 1, pp * dp}) {
      BOOST_TEST(bytes_of(system, caf::make_message(orders.begin_of(member))) < kMostBytes / 16);
      for (const caf::message& peers : orders.peers_of(member))
        BOOST_TEST(bytes_of(system, peers) < kMostBytes);
      const WarmUp warm_up{.order = 1, .rank = member, .shape = orders.configuration().shape};
      BOOST_TEST(bytes_of(system, caf::make_message(warm_up)) < kMostBytes / 16);
    }
  }
}

/// One member that leaves gives the state of many layers to many replicas.
BOOST_AUTO_TEST_CASE(moves_are_spread_over_messages_in_their_order) {
  ControlPlaneConfig config(1);
  caf::actor_system system{config};
  constexpr int kReplicas = 64, kUnits = 130;
  const RunSpec spec = run_of(1, kReplicas);
  EnterConfiguration whole = whole_configuration(spec);
  whole.start.state.moves.clear();
  for (int rank = 0; rank < kReplicas; ++rank)
    for (int unit = 0; unit < kUnits; ++unit)
      whole.start.state.moves.push_back({.unit = unit, .from = kReplicas, .to = rank});
  const ConfigurationOrders orders(spec, whole);
  const std::vector<Moves> all = orders.moves_of(kReplicas);
  for (const Moves& message : all)
    BOOST_TEST(bytes_of(system, caf::make_message(message)) < kMostBytes);
  BOOST_TEST((moves_in(all) == whole.start.state.moves));
  BOOST_TEST(moves_in(orders.moves_of(3)).size() == std::size_t{kUnits});
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::actors
