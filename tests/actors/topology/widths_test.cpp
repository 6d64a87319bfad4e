#include <boost/test/unit_test.hpp>
#include <map>
#include <random>

#include "actors/topology/assembly.h"
#include "actors/topology/boundary.h"
#include "actors/topology/scale.h"
#include "actors/topology/shape_rules.h"
#include "actors/topology/state/copy_ring.h"
#include "actors/topology/state/state_parts.h"
#include "actors/topology/state/state_plan.h"
#include "actors/topology/state/tied_parts.h"
#include "tests/support/expect_error.h"
#include "tests/support/run_specs.h"
#include "tests/support/seed.h"

// Tests meshes whose stages differ in width.

namespace troupe::actors {

BOOST_AUTO_TEST_SUITE(widths_test)

namespace {

using transport::Edge;
using Widths = std::vector<RunSpec::Width>;

RunSpec spec_of(Widths widths) {
  RunSpec spec = test::small_run(static_cast<int>(widths.size()));
  spec.mesh.set_widths(std::move(widths));
  return spec;
}

/// Widths whose replicas divide each other.
Widths random_widths(std::mt19937_64& random) {
  const auto one_of = [&](std::initializer_list<int> values) {
    return values.begin()[random() % values.size()];
  };
  Widths widths;
  const int stages = 2 + static_cast<int>(random() % 3);
  for (int stage = 0; stage < stages; ++stage)
    widths.push_back({.dp = one_of({1, 2, 4}), .tp = one_of({1, 2, 4})});
  return widths;
}

Boundary forward(int from, int to) {
  return {.from_stage = from, .to_stage = to, .chunk = to};
}

std::vector<Edge> edges_at(const RunSpec& spec, const Boundary& boundary, int rank) {
  return edges_over(boundary, spec, spec.mesh, place_of(spec.mesh, rank));
}

/// The ranks at the other ends of a rank's edges.
std::vector<int> others(const std::vector<Edge>& edges, int rank) {
  std::vector<int> ranks;
  for (const Edge& edge : edges) ranks.push_back(edge.from == rank ? edge.to : edge.from);
  return ranks;
}

}  // namespace

BOOST_AUTO_TEST_CASE(ranks_count_through_the_stages_that_have_a_replica) {
  const RunSpec::Mesh mesh = spec_of({{.dp = 2}, {.dp = 1, .tp = 2}, {.dp = 3}}).mesh;
  BOOST_TEST(mesh.num_ranks() == 7);
  BOOST_TEST((mesh.dp == 3 && mesh.tp == 2));
  BOOST_TEST(mesh.ranks_of_replica(0) == 4);
  BOOST_TEST(mesh.ranks_of_replica(1) == 2);
  BOOST_TEST(mesh.ranks_of_replica(2) == 1);
  BOOST_TEST(first_rank_of(mesh, 1) == 4);
  BOOST_TEST((place_of(mesh, 2) == RankPlace{.replica = 0, .stage = 1, .shard = 1}));
  BOOST_TEST((place_of(mesh, 5) == RankPlace{.replica = 1, .stage = 2}));
  BOOST_TEST((place_of(mesh, 6) == RankPlace{.replica = 2, .stage = 2}));
  BOOST_TEST(to_string(mesh) == "pp 3 (dp 2 x tp 1 | dp 1 x tp 2 | dp 3 x tp 1)");
  BOOST_TEST(spec_of({{.dp = 2, .tp = 2}, {.dp = 2, .tp = 2}}).mesh.is_even());
}

BOOST_AUTO_TEST_CASE(each_rank_has_one_place_and_each_place_one_rank) {
  std::mt19937_64 random(test::fresh_seed());
  for (int i = 0; i < 200; ++i) {
    const RunSpec::Mesh mesh = spec_of(random_widths(random)).mesh;
    for (int rank = 0; rank < mesh.num_ranks(); ++rank) {
      const RankPlace place = place_of(mesh, rank);
      BOOST_TEST(has_place(mesh, place));
      BOOST_TEST(rank_at(mesh, place) == rank);
      BOOST_TEST(first_rank_of(mesh, place.replica) <= rank);
    }
    for (int member = mesh.num_ranks(); member < mesh.num_ranks() + 3; ++member)
      BOOST_TEST(place_of(mesh, member).replica >= mesh.dp);
  }
}

// The vectors of Megatron-LM's bridge: four senders and two receivers, and back.
BOOST_AUTO_TEST_CASE(fan_in_concatenates_and_fan_out_splits_in_the_order_of_replicas) {
  const RunSpec in = spec_of({{.dp = 4}, {.dp = 2}});  // ranks 0 2 4 5 | 1 3
  BOOST_TEST(others(edges_at(in, forward(0, 1), 1), 1) == (std::vector{0, 2}),
             boost::test_tools::per_element());
  BOOST_TEST(others(edges_at(in, forward(0, 1), 3), 3) == (std::vector{4, 5}),
             boost::test_tools::per_element());
  const auto pieces = edges_at(in, forward(0, 1), 1);
  const std::int64_t half = pieces[0].shape.num_elements();
  BOOST_TEST((pieces[0].received == transport::Piece{.first_row = 0, .rows = 2 * half}));
  BOOST_TEST((pieces[1].received == transport::Piece{.first_row = half, .rows = 2 * half}));
  BOOST_TEST((pieces[0].sent.is_whole() && pieces[1].sent.is_whole()));
  const RunSpec out = spec_of({{.dp = 2}, {.dp = 4}});  // ranks 0 2 | 1 3 4 5
  BOOST_TEST(others(edges_at(out, forward(0, 1), 0), 0) == (std::vector{1, 3}),
             boost::test_tools::per_element());
  BOOST_TEST(others(edges_at(out, forward(0, 1), 2), 2) == (std::vector{4, 5}),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(stages_of_equal_width_have_the_plain_edge) {
  RunSpec even = test::small_run(3);
  even.batch.micro *= 2;  // as a stage of one replica has beside one of two
  const RunSpec wide = spec_of({{.dp = 1}, {.dp = 1}, {.dp = 2}});
  BOOST_TEST((edges_at(even, forward(0, 1), 0) == edges_at(wide, forward(0, 1), 0)));
}

// Whatever the widths are, both ends of every edge describe it alike, and each element of a
// receiver comes from the one sender that has it.
BOOST_AUTO_TEST_CASE(each_element_is_sent_once) {
  std::mt19937_64 random(test::fresh_seed());
  for (int i = 0; i < 100; ++i) {
    RunSpec spec = spec_of(random_widths(random));
    spec.mesh.sequence_parallel = random() % 2 == 0;
    const Boundary boundary = forward(0, 1);
    std::map<std::pair<int, int>, Edge> seen;  // by ends
    std::set<std::pair<int, int>> met;
    for (int rank = 0; rank < spec.num_ranks(); ++rank) {
      const RankPlace place = place_of(spec.mesh, rank);
      if (place.stage > 1) continue;
      const auto edges = edges_at(spec, boundary, rank);
      std::int64_t at = 0;
      for (const Edge& edge : edges) {
        const auto& piece = place.stage == 0 ? edge.sent : edge.received;
        BOOST_TEST((piece.is_whole() ? edges.size() == 1 : piece.first_row == at));
        at += edge.shape.num_elements();
        const auto [known, is_new] = seen.emplace(std::pair(edge.from, edge.to), edge);
        BOOST_TEST((is_new || known->second == edge));
        met.insert({edge.from, edge.to});
      }
      const ElementSpan own = elements_at(spec, spec.mesh, place);
      BOOST_TEST(at == own.size());
      if (!edges.front().sent.is_whole() || !edges.front().received.is_whole()) continue;
      BOOST_TEST(edges.size() == 1u);
    }
    const auto pairs = ranks_that_meet(spec.mesh, 0, 1);
    BOOST_TEST((met == std::set(pairs.begin(), pairs.end())));
  }
}

// Whatever rows of packed documents are in use, the part of a slice that an edge carries is made of
// whole pieces, and of whole rows where lanes are alike.
BOOST_AUTO_TEST_CASE(edges_of_packed_documents_have_whole_pieces) {
  std::mt19937_64 random(test::fresh_seed());
  for (int i = 0; i < 100; ++i) {
    RunSpec spec = spec_of(random_widths(random));
    spec.mesh.sequence_parallel = random() % 2 == 0;
    spec.batch.documents = stages::Documents::packed;
    const int multiple = row_multiple_of(spec, spec.mesh);
    BOOST_TEST((multiple == 0) == (spec.mesh.is_even() || spec.mesh.tp == 1));
    if (multiple == 0) continue;
    for (const RunSpec::Width& width : spec.mesh.widths) BOOST_TEST(multiple % width.tp == 0);
    const Boundary boundary = forward(0, 1);
    for (int rank = 0; rank < spec.num_ranks(); ++rank) {
      const RankPlace place = place_of(spec.mesh, rank);
      if (place.stage > 1) continue;
      const ElementSpan own = elements_at(spec, spec.mesh, place);
      const int pieces = pieces_of(spec.mesh, place.stage);
      BOOST_TEST(own.size() % (pieces * spec.model.hidden_size) == 0);
      for (const Edge& edge : edges_at(spec, boundary, rank)) {
        const auto& part = place.stage == 0 ? edge.sent : edge.received;
        BOOST_TEST(edge.shape.num_elements() % (own.size() / pieces) == 0);
        BOOST_TEST((part.is_whole() || part.first_row % (own.size() / pieces) == 0));
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(lanes_of_dropped_packed_documents_are_alike) {
  RunSpec spec = spec_of({{.dp = 2}, {.dp = 1}});
  spec.batch.documents = stages::Documents::packed;
  BOOST_TEST(row_multiple_of(spec, spec.mesh) == 0);
  spec.model.attention_dropout = 0.1;
  BOOST_TEST(row_multiple_of(spec, spec.mesh) == 1);
  spec.batch.documents = stages::Documents::padded;
  BOOST_TEST(row_multiple_of(spec, spec.mesh) == 0);
}

BOOST_AUTO_TEST_CASE(widths_that_do_not_go_together_are_told) {
  const auto fault = [](Widths widths, auto change) {
    RunSpec spec = spec_of(std::move(widths));
    change(spec);
    return fault_of_widths(spec.mesh, spec.schedule);
  };
  const auto nothing = [](RunSpec&) {};
  const auto has = [](const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  };
  BOOST_TEST(fault({{.dp = 2}, {.dp = 1}, {.dp = 2}}, nothing).empty());
  BOOST_TEST(
      has(fault({{.dp = 3}, {.dp = 2}}, nothing), "stage 0 has dp = 3 and stage 1 has dp = 2"));
  BOOST_TEST(has(fault({{.dp = 6}, {.dp = 2}, {.dp = 4}}, nothing), "the 6 replicas"));
  const auto tie = [](RunSpec& spec) { spec.model.tie_word_embeddings = true; };
  BOOST_TEST(fault({{.dp = 2}, {.dp = 1}}, tie).empty());
  BOOST_TEST(fault({{.tp = 2}, {.tp = 1}}, tie).empty());
  const auto mirrored = [](RunSpec& spec) { spec.schedule.kind = "dualpipe"; };
  BOOST_TEST(has(fault({{.dp = 2}, {.dp = 1}}, mirrored), "stages 0 and 1"));
  BOOST_TEST(fault({{.dp = 2}, {.dp = 1}, {.dp = 1}, {.dp = 2}}, mirrored).empty());
}

// The replicas of both ends add their uses of a tied matrix in one sum.
BOOST_AUTO_TEST_CASE(ends_of_unequal_width_tie_all_their_replicas) {
  RunSpec spec = spec_of({{.dp = 2}, {.dp = 4}, {.dp = 1}});  // 0 3 | 1 4 5 6 | 2
  spec.model.tie_word_embeddings = true;
  const ClusterShape shape = first_shape(spec);
  const auto tied = [&](int rank) { return tied_ranks_of(spec, shape, place_of(spec.mesh, rank)); };
  for (const int rank : {0, 2, 3}) BOOST_TEST((tied(rank) == std::vector{0, 3, 2}));
  for (const int rank : {1, 4, 5, 6}) BOOST_TEST(tied(rank).empty());
}

// Whatever the widths of the ends are, a rank gets each element that it keeps of the matrix from
// one of the other end, which has it, and both ends of an exchange describe it alike.
BOOST_AUTO_TEST_CASE(each_element_of_a_tied_matrix_meets_its_other_use) {
  using Division = stages::StateDivision;
  std::mt19937_64 random(test::fresh_seed());
  for (int i = 0; i < 100; ++i) {
    RunSpec spec = spec_of(random_widths(random));
    spec.model.tie_word_embeddings = true;
    spec.model.vocab_size = 61;  // shards have padding
    spec.data_parallel.division = random() % 2 == 0 ? Division::none : Division::optim_grads;
    const ClusterShape shape = first_shape(spec);
    if (shape.mesh.width(0) == shape.mesh.width(shape.mesh.pp - 1)) continue;
    if (!exchanges_tied_sums(spec, shape)) continue;
    const StateParts parts(spec, shape);
    const stages::ParameterInfo matrix = stages::parameters_of(spec.model).front();
    for (int rank = 0; rank < shape.num_ranks(); ++rank) {
      const auto ranks = tied_ranks_of(spec, shape, place_of(shape.mesh, rank));
      if (ranks.empty()) continue;
      const auto own = tied_parts_of(spec, shape, ranks, rank);
      const auto region = parts.region(parts.kept_by(rank).front(), matrix);
      std::vector<int> times(static_cast<std::size_t>(region.num_elements()));
      for (const auto& [member, first, count] : own.received) {
        for (std::int64_t e = first; e < first + count; ++e) ++times[static_cast<std::size_t>(e)];
        BOOST_TEST(count <= own.largest);
        const int from = ranks[static_cast<std::size_t>(member)];
        BOOST_TEST(place_of(shape.mesh, from).stage != place_of(shape.mesh, rank).stage);
        const auto others = tied_parts_of(spec, shape, ranks, from);
        const auto self = std::ranges::find(ranks, rank) - ranks.begin();
        const auto sent = std::ranges::find(others.sent, static_cast<int>(self),
                                            &stages::TiedParts::Part::member);
        BOOST_REQUIRE((sent != others.sent.end()));
        BOOST_TEST(sent->count == count);
        const auto its = parts.region(parts.kept_by(from).front(), matrix);
        BOOST_TEST(its.row * its.columns + sent->first == region.row * region.columns + first);
      }
      BOOST_TEST(std::ranges::count(times, 1) == std::ssize(times));
    }
  }
}

BOOST_AUTO_TEST_CASE(stages_with_hosts_of_their_own_keep_their_number) {
  RunSpec spec = test::small_run(2);
  spec.cluster.stage_hosts = {{"a"}, {}};
  ScaleRequest deeper;
  deeper.pp = 3;
  test::expect_error(ErrorKind::usage, {"--pp 3", "2 stages", "[[stage]] hosts"},
                     [&] { scaled(spec, first_shape(spec), deeper); });
}

BOOST_AUTO_TEST_CASE(one_stage_becomes_wider_and_narrower) {
  const RunSpec spec = test::small_run(2);
  ScaleRequest wider;
  wider.stage = 1;
  wider.dp = 2;
  const ClusterShape wide = scaled(spec, first_shape(spec), wider);
  BOOST_TEST(to_string(wide.mesh) == "pp 2 (dp 1 | dp 2)");
  BOOST_TEST(to_string(wider) == "--stage 1 --dp 2");
  ScaleRequest back = wider;
  back.dp = 1;
  BOOST_TEST((scaled(spec, wide, back) == first_shape(spec)));
  ScaleRequest all;
  all.dp = 2;
  BOOST_TEST(to_string(scaled(spec, wide, all).mesh) == "pp 2 x dp 2");
  const auto refused = [&](const ScaleRequest& request, std::initializer_list<std::string> words) {
    test::expect_error(ErrorKind::usage, words, [&] { scaled(spec, wide, request); });
  };
  ScaleRequest far = wider;
  far.stage = 2;
  refused(far, {"--stage 2", "0 to 1"});
  ScaleRequest nothing;
  nothing.stage = 1;
  refused(nothing, {"--stage 1", "--dp or --tp"});
  ScaleRequest deeper;
  deeper.pp = 3;
  refused(deeper, {"--pp 3", "--dp and --tp"});
  ScaleRequest mirrored;
  mirrored.schedule = "dualpipe";
  refused(mirrored, {"--schedule dualpipe", "stages 0 and 1"});
  ScaleRequest three = wider;
  three.stage = 0;
  three.dp = 3;
  refused(three, {"dp = 3", "dp = 2"});
}

BOOST_AUTO_TEST_CASE(stages_that_lose_replicas_become_narrower) {
  const RunSpec spec = spec_of({{.dp = 1}, {.dp = 4}});  // ranks 0 | 1 2 3 4
  const auto after = [&](const std::set<int>& lost) {
    const auto smaller = shrunk(spec, first_shape(spec), lost);
    BOOST_REQUIRE(smaller.has_value());
    return to_string(smaller->shape.mesh);
  };
  BOOST_TEST(after({3}) == "pp 2 (dp 1 | dp 2)");
  BOOST_TEST(after({1, 2, 3}) == "pp 2 x dp 1");
  BOOST_TEST(after({0}) == "pp 4 x dp 1");
}

// Only a stage of one replica copies its state, to another rank.
BOOST_AUTO_TEST_CASE(the_only_replica_of_a_stage_copies_its_state) {
  std::mt19937_64 random(test::fresh_seed());
  for (int i = 0; i < 100; ++i) {
    const RunSpec spec = spec_of(random_widths(random));
    const ClusterShape shape{.mesh = spec.mesh, .schedule = {}, .layout = {}};
    if (shape.mesh.is_even()) continue;
    std::vector<int> hosts;
    for (int rank = 0; rank < shape.num_ranks(); ++rank)
      hosts.push_back(static_cast<int>(random() % 3));
    for (const CopyRing& ring : {CopyRing(), copy_ring(shape, hosts)}) {
      std::set<int> keepers;
      for (int rank = 0; rank < shape.num_ranks(); ++rank) {
        const int keeper = ring.keeper_of(shape, rank);
        BOOST_TEST((keeper >= 0) == (shape.mesh.width(place_of(shape.mesh, rank).stage).dp == 1));
        const CopyRing own = ring.for_rank(shape, rank);
        BOOST_TEST(own.keeper_of(shape, rank) == keeper);
        BOOST_TEST(own.source_of(shape, rank) == ring.source_of(shape, rank));
        if (keeper < 0) continue;
        BOOST_TEST(keeper != rank);
        BOOST_TEST(keepers.insert(keeper).second);
        BOOST_TEST(ring.source_of(shape, keeper) == rank);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(the_copy_lies_on_another_host) {
  const RunSpec spec = spec_of({{.dp = 2}, {.dp = 1}});  // ranks 0 2 | 1
  const ClusterShape shape = first_shape(spec);
  const std::vector<int> hosts{0, 0, 1};
  BOOST_TEST(copy_ring(shape, hosts).keeper_of(shape, 1) == 2);
  BOOST_TEST(survives_loss_of_host(spec, shape, hosts));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::actors
