#include "actors/topology/assembly.h"

#include <boost/test/unit_test.hpp>
#include <map>
#include <set>

#include "actors/topology/program.h"
#include "actors/topology/state/state_plan.h"
#include "schedules/analysis/simulate.h"
#include "stages/decoder/parameters/parameters.h"
#include "tests/support/run_specs.h"

namespace troupe::actors {

BOOST_AUTO_TEST_SUITE(assembly_test)

namespace {

RunSpec spec_of(int pp, int dp, const std::string& kind, int chunks) {
  RunSpec spec = test::small_run(pp, dp);
  spec.batch.global = 24;
  spec.schedule = {.kind = kind, .chunks = chunks};
  return spec;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_layout_of_two_copies_holds_every_layer_twice) {
  const Layout layout = layout_of({3, 2}, {0, 1, 1, 0});
  BOOST_TEST(layout.copies() == 2);
  BOOST_TEST(layout_of({2, 1, 1, 1}, {0, 1, 1, 0}).copies() == 1);
  BOOST_TEST(layout_of({0, 0, 5, 0}, {0, 1, 1, 0}).copies() == 1);
  const Layout empty = layout_of({0, 0, 5, 0}, {0, 1, 2, 3, 3, 2, 1, 0});
  BOOST_TEST(empty.copies() == 2);
  BOOST_TEST((empty.is_first(4) && !empty.is_first(1) && empty.is_last(3) && !empty.is_last(2)));
  for (const std::size_t chunk : {0u, 2u}) {
    BOOST_TEST(layout.chunks[chunk].first_layer == 0);
    BOOST_TEST(layout.chunks[chunk].end_layer == 3);
    BOOST_TEST(layout.chunks[chunk + 1].end_layer == 5);
  }
}

BOOST_AUTO_TEST_CASE(mirrored_ranks_hold_the_same_parameters_and_own_each_once) {
  for (const bool tied : {false, true})
    for (const auto& [pp, dp] : {std::pair{2, 1}, {4, 1}, {2, 2}}) {
      RunSpec spec = spec_of(pp, dp, "chimera", 2);
      spec.model.tie_word_embeddings = tied;
      const ClusterShape shape = first_shape(spec);
      const Assembly assembly = assemble(spec, shape);
      std::multiset<std::string> owned;
      for (int rank = 0; rank < pp; ++rank) {
        const RankAssembly part = part_of(assembly, spec, shape, rank);
        const int mirror = pp - 1 - rank;
        BOOST_TEST(mirror_of(shape, rank) == mirror);
        BOOST_TEST(
            (part.mirror_ranks == std::vector{std::min(rank, mirror), std::max(rank, mirror)}));
        BOOST_TEST(part.tied_ranks.empty());
        BOOST_TEST((units_of(spec, shape, rank) == units_of(spec, shape, mirror)));
        const auto layout = stages::lay_out_parameters(part.stage);
        const auto others =
            stages::lay_out_parameters(part_of(assembly, spec, shape, mirror).stage);
        BOOST_TEST(layout.size == others.size);
        for (std::size_t i = 0; i < layout.entries.size(); ++i) {
          BOOST_TEST(layout.entries[i].info.name == others.entries[i].info.name);
          BOOST_TEST(layout.entries[i].offset == others.entries[i].offset);
          if (layout.entries[i].owned) owned.insert(layout.entries[i].info.name);
        }
      }
      std::multiset<std::string> all;
      for (const auto& info : stages::parameters_of(spec.model)) all.insert(info.name);
      BOOST_TEST((owned == all));
    }
}

BOOST_AUTO_TEST_CASE(every_edge_is_described_alike_at_both_ends) {
  for (const auto& [pp, dp, kind, chunks] : {std::tuple{1, 1, "1f1b", 1},
                                             {3, 2, "1f1b", 1},
                                             {2, 1, "gpipe", 1},
                                             {2, 2, "interleaved", 3},
                                             {3, 1, "interleaved", 2},
                                             {2, 2, "chimera", 2}}) {
    const RunSpec spec = spec_of(pp, dp, kind, chunks);
    const ClusterShape shape = first_shape(spec);
    const Assembly assembly = assemble(spec, shape);
    const int copies = assembly.plan.num_copies;
    using End = std::tuple<int, int, int, int>;
    std::map<End, std::vector<transport::Edge>> seen;
    for (int rank = 0; rank < spec.num_ranks(); ++rank)
      for (const auto& edge : part_of(assembly, spec, shape, rank).edges)
        seen[{edge.from, edge.to, edge.chunk, static_cast<int>(edge.direction)}].push_back(edge);
    BOOST_TEST(static_cast<int>(seen.size()) == 2 * (pp * chunks - copies) * dp);
    for (const auto& [key, edges] : seen) {
      BOOST_REQUIRE(edges.size() == (edges[0].from == edges[0].to ? 1u : 2u));
      BOOST_REQUIRE((edges.front() == edges.back()));
      BOOST_REQUIRE(edges[0].slots >= 1);
    }
  }
}

BOOST_AUTO_TEST_CASE(the_digest_tells_layouts_and_schedules_apart) {
  std::set<std::uint64_t> digests;
  for (const auto& [pp, kind, chunks] :
       {std::tuple{1, "1f1b", 1}, {2, "1f1b", 1}, {2, "gpipe", 1}, {2, "interleaved", 2}}) {
    const RunSpec spec = spec_of(pp, 1, kind, chunks);
    digests.insert(assemble(spec, first_shape(spec)).digest);
  }
  RunSpec bf16 = spec_of(2, 1, "1f1b", 1);
  bf16.model.dtype = tensor::DType::bf16;
  digests.insert(assemble(bf16, first_shape(bf16)).digest);
  RunSpec again = spec_of(2, 1, "1f1b", 1);
  again.recompute.mode = stages::Recompute::Mode::full;
  digests.insert(assemble(again, first_shape(again)).digest);
  ClusterShape uneven = first_shape(spec_of(2, 1, "1f1b", 1));
  uneven.layout.chunks[0].end_layer = uneven.layout.chunks[1].first_layer = 2;
  digests.insert(assemble(spec_of(2, 1, "1f1b", 1), uneven).digest);
  BOOST_TEST(digests.size() == 7u);
}

BOOST_AUTO_TEST_CASE(a_searched_schedule_knows_of_recompute) {
  RunSpec spec = spec_of(4, 1, "zb-v", 2);
  spec.batch = {.seq_len = 8, .micro = 1, .global = 4};
  const schedules::Plan kept = make_plan(spec);
  spec.recompute.mode = stages::Recompute::Mode::full;
  const schedules::Plan again = make_plan(spec);
  const auto wall = [&](const schedules::Plan& plan) {
    return schedules::simulate(plan, unit_costs(spec))->wall;
  };
  BOOST_TEST(wall(again) < wall(kept));
}

BOOST_AUTO_TEST_CASE(the_digest_covers_pairs) {
  RunSpec spec = spec_of(2, 1, "combined-1f1b", 2);
  schedules::Plan plan = make_plan(spec);
  const auto digest_of = [&](const schedules::Plan& changed) {
    RunSpec own = spec;
    own.schedule = {.kind = "csv", .chunks = 2, .csv = schedules::to_csv(changed), .costs = ""};
    return assemble(own, first_shape(own)).digest;
  };
  const auto paired = digest_of(plan);
  BOOST_TEST(paired == assemble(spec, first_shape(spec)).digest);
  for (auto& row : plan.actions)
    for (auto& action : row) action.overlaps_next = false;
  BOOST_TEST(digest_of(plan) != paired);
}

BOOST_AUTO_TEST_CASE(groups_are_made_where_something_is_shared) {
  RunSpec spec = spec_of(3, 2, "1f1b", 1);
  BOOST_TEST(
      part_of(assemble(spec, first_shape(spec)), spec, first_shape(spec), 4).tied_ranks.empty());
  spec.model.tie_word_embeddings = true;
  const ClusterShape shape = first_shape(spec);
  const Assembly assembly = assemble(spec, shape);
  BOOST_TEST((part_of(assembly, spec, shape, 3).tied_ranks == std::vector<int>{3, 5}));
  BOOST_TEST(part_of(assembly, spec, shape, 4).tied_ranks.empty());
  BOOST_TEST((part_of(assembly, spec, shape, 4).replica_ranks == std::vector<int>{1, 4}));
}

BOOST_AUTO_TEST_CASE(programs_never_share_a_slot_between_live_microbatches) {
  for (const auto& [pp, kind, chunks] :
       {std::tuple{3, "1f1b", 1}, {2, "gpipe", 1}, {2, "interleaved", 3}, {2, "dualpipe", 2}}) {
    const RunSpec spec = spec_of(pp, 1, kind, chunks);
    const ClusterShape shape = first_shape(spec);
    const Assembly assembly = assemble(spec, shape);
    for (int rank = 0; rank < pp; ++rank) {
      const RankAssembly part = part_of(assembly, spec, shape, rank);
      std::map<std::pair<int, int>, int> holder;  // (chunk, slot) -> microbatch
      for (const Instruction& next : compile(part, part.actions)) {
        BOOST_REQUIRE(next.slot < part.stage.chunks[static_cast<std::size_t>(next.chunk)].live);
        const std::pair key{next.chunk, next.slot};
        if (next.op == schedules::Op::F)
          BOOST_REQUIRE(holder.emplace(key, next.microbatch).second);
        else
          BOOST_REQUIRE(holder.at(key) == next.microbatch);
        if (next.op == schedules::Op::B || next.op == schedules::Op::W) holder.erase(key);
      }
      BOOST_REQUIRE(holder.empty());
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::actors
