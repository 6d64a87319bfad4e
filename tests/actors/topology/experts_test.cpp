#include <boost/test/unit_test.hpp>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "actors/topology/assembly.h"
#include "actors/topology/hosts.h"
#include "actors/topology/rank_groups.h"
#include "actors/topology/scale.h"
#include "actors/topology/shape_rules.h"
#include "actors/topology/state/state_parts.h"
#include "actors/topology/state/state_plan.h"
#include "stages/decoder/parameters/parameter_layout.h"
#include "tensor/errors/error.h"
#include "tests/support/run_specs.h"

// Replicas that share out the experts of a layer ([mesh] ep).

namespace troupe::actors {

BOOST_AUTO_TEST_SUITE(experts_test)

namespace {

using Ranks = std::vector<int>;

RunSpec spec_of(const RunSpec::Mesh& mesh) {
  RunSpec spec = test::small_run(mesh.pp, mesh.dp);
  spec.model.kind = stages::ModelKind::mixtral;
  spec.model.intermediate_size = 24;
  spec.model.experts = {.count = 8, .per_token = 2, .width = 24};
  spec.mesh = mesh;
  spec.batch.global = 24;
  return spec;
}

RankAssembly part_of(const RunSpec& spec, int rank) {
  const ClusterShape shape = first_shape(spec);
  return part_of(assemble(spec, shape), spec, shape, rank);
}

Ranks group_of(const RunSpec& spec, int rank, GroupKind kind) {
  for (const RankGroup& group : groups_of(spec, part_of(spec, rank)))
    if (group.kind == kind) return group.ranks;
  return {};
}

stages::ParameterLayout layout_of_rank(const RunSpec& spec, int rank) {
  return stages::lay_out_parameters(part_of(spec, rank).stage);
}

/// The newest state of a shape of which ranks are dead, from the memory of those that are not.
std::optional<StatePlan> plan_without(const RunSpec& spec, const std::set<int>& dead,
                                      const std::map<int, int>& copies = {}) {
  Configuration kept{.number = 1, .shape = first_shape(spec), .members = {}};
  Configuration next{.number = 2, .shape = kept.shape, .members = {}};
  std::map<std::uint64_t, StateInventory> inventory;
  for (int i = 0; i < kept.num_ranks(); ++i) {
    const auto incarnation = static_cast<std::uint64_t>(100 + i);
    kept.members.push_back({.id = i, .incarnation = incarnation});
    next.members.push_back({.id = i, .incarnation = dead.contains(i) ? 900 : incarnation});
    if (dead.contains(i)) continue;
    inventory[incarnation] = {.step = 7};
    if (const auto copy = copies.find(i); copy != copies.end())
      inventory[incarnation].copies = {{.rank = copy->second, .step = 7}};
  }
  return plan_state(spec, kept, next, inventory, 7);
}

}  // namespace

BOOST_AUTO_TEST_CASE(neighbours_share_experts_out_and_equal_places_hold_the_same) {
  const RunSpec spec = spec_of({.pp = 2, .dp = 4, .ep = 2});
  // Ranks of stage 1: 1, 3, 5, 7.
  BOOST_TEST((group_of(spec, 5, GroupKind::replicas) == Ranks{1, 3, 5, 7}));
  BOOST_TEST((group_of(spec, 5, GroupKind::expert_forwards) == Ranks{5, 7}));
  BOOST_TEST((group_of(spec, 5, GroupKind::expert_backwards) == Ranks{5, 7}));
  BOOST_TEST((group_of(spec, 5, GroupKind::expert_replicas) == Ranks{1, 5}));
  BOOST_TEST((group_of(spec, 7, GroupKind::expert_replicas) == Ranks{3, 7}));
  const RunSpec each = spec_of({.dp = 4, .ep = 4});
  BOOST_TEST(group_of(each, 2, GroupKind::expert_replicas).empty());
  BOOST_TEST((group_of(each, 2, GroupKind::expert_forwards) == Ranks{0, 1, 2, 3}));
  const RunSpec none = spec_of({.dp = 4});
  for (const GroupKind kind :
       {GroupKind::expert_forwards, GroupKind::expert_backwards, GroupKind::expert_replicas})
    BOOST_TEST(group_of(none, 2, kind).empty());
}

BOOST_AUTO_TEST_CASE(replicas_lay_their_experts_out_alike) {
  for (const auto division : {stages::StateDivision::none, stages::StateDivision::optim_grads}) {
    RunSpec spec = spec_of({.dp = 4, .ep = 2});
    spec.data_parallel.division = division;
    spec.data_parallel.buckets = {.size = 500};
    const stages::ParameterLayout first = layout_of_rank(spec, 0), second = layout_of_rank(spec, 1);
    BOOST_REQUIRE(first.entries.size() == second.entries.size());
    BOOST_TEST(first.size == second.size);
    std::set<std::string> names;
    for (std::size_t i = 0; i < first.entries.size(); ++i) {
      const auto &a = first.entries[i], &b = second.entries[i];
      BOOST_TEST(a.offset == b.offset);
      BOOST_TEST((a.shape == b.shape));
      BOOST_TEST(a.is_expert == (a.info.expert >= 0));
      BOOST_TEST(b.info.expert == (a.is_expert ? a.info.expert + 4 : -1));
      BOOST_TEST((a.info.name == b.info.name) == !a.is_expert);
      names.insert({a.info.name, b.info.name});
    }
    BOOST_TEST(names.size() == stages::parameters_of(spec.model).size());
    for (const stages::Bucket& bucket : first.buckets_by(spec.data_parallel.buckets))
      for (int i = bucket.parameters.first; i < bucket.parameters.end; ++i)
        BOOST_TEST(first.entries[static_cast<std::size_t>(i)].is_expert ==
                   first.has_experts(bucket));
  }
}

BOOST_AUTO_TEST_CASE(the_experts_of_a_place_are_divided_among_its_replicas) {
  RunSpec spec = spec_of({.dp = 6, .ep = 2});
  spec.data_parallel.division = stages::StateDivision::optim;
  const ClusterShape shape = first_shape(spec);
  const stages::StateSharding state = state_sharding_of(spec, shape, 3);
  BOOST_TEST((state.count == 6 && state.index == 3 && state.ep == 2 && state.twins));
  BOOST_TEST(state.twin() == 1);
  BOOST_TEST(state.slice_of(3, true) == 1);
  const stages::ParameterLayout layout = layout_of_rank(spec, 3);
  for (const auto& entry : layout.entries)
    BOOST_TEST(entry.row_cuts.size() == (entry.is_expert ? 4 : 7));
}

BOOST_AUTO_TEST_CASE(what_a_lost_replica_held_is_with_one_of_its_place) {
  RunSpec spec = spec_of({.dp = 4, .ep = 2});
  for (const auto division : {stages::StateDivision::none, stages::StateDivision::optim}) {
    spec.data_parallel.division = division;
    BOOST_TEST(!copies_state(spec, first_shape(spec)));
    for (int i = 0; i < 4; ++i) {
      BOOST_TEST(plan_without(spec, {i}).has_value());
      BOOST_TEST(!plan_without(spec, {i, (i + 2) % 4}).has_value());
    }
  }
}

BOOST_AUTO_TEST_CASE(a_replica_that_alone_holds_experts_copies_its_state) {
  RunSpec spec = spec_of({.dp = 2, .ep = 2});
  const ClusterShape shape = first_shape(spec);
  BOOST_TEST(copies_state(spec, shape));
  BOOST_TEST(neighbour_of(shape, 0, 1) == 1);
  BOOST_TEST(neighbour_of(shape, 1, 1) == 0);
  BOOST_TEST(!plan_without(spec, {1}).has_value());
  const auto plan = plan_without(spec, {1}, {{0, 1}});
  BOOST_REQUIRE(plan.has_value());
  for (const StateMove& move : plan->moves)
    if (move.to == 1) BOOST_TEST((move.from == 0 && move.copy_of == 1));
  // Slices are not copied: they come from a checkpoint.
  spec.data_parallel.division = stages::StateDivision::optim;
  BOOST_TEST(!copies_state(spec, shape));
  BOOST_TEST(!state_sharding_of(spec, shape, 0).twins);
}

BOOST_AUTO_TEST_CASE(neighbours_lie_on_one_host_and_equal_places_on_two) {
  const std::vector<Host> hosts{{.name = "a", .slots = 4}, {.name = "b", .slots = 4}};
  BOOST_TEST((place_ranks({.dp = 4, .ep = 2}, hosts, {}) == Ranks{0, 0, 1, 1}));
  BOOST_TEST((place_ranks({.dp = 2, .ep = 2}, hosts, {}) == Ranks{0, 1}));  // hosts used alike
  BOOST_TEST((place_ranks({.dp = 4}, hosts, {}) == Ranks{0, 1, 0, 1}));
}

BOOST_AUTO_TEST_CASE(experts_may_be_whole_on_each_shard) {
  const RunSpec spec = spec_of({.dp = 2, .tp = 2, .sequence_parallel = true, .ep = 2, .etp = 1});
  const stages::Sharding sharding = sharding_at(spec.mesh, {.replica = 1, .shard = 1});
  BOOST_TEST(sharding.whole_experts);
  for (const auto& info : stages::parameters_of(spec.model)) {
    if (info.expert < 0) continue;
    const bool is_held = info.expert >= 4;
    BOOST_TEST((region_of(info, spec.model, sharding) ==
                (is_held ? tensor::whole(info.shape) : tensor::Region{})));
    BOOST_TEST(!owns_region(info, spec.model, sharding));  // but the first shard
    BOOST_TEST(sums_gradient(info, sharding));
    BOOST_TEST(owned_regions(info, spec.model, sharding).size() == 1);
  }
  RunSpec divided = spec;
  divided.mesh.etp = 0;
  BOOST_TEST(!sharding_at(divided.mesh, {.shard = 1}).whole_experts);
  BOOST_TEST(!sharding_at({.etp = 1}, {}).whole_experts);
}

BOOST_AUTO_TEST_CASE(a_mesh_that_cannot_share_experts_out_is_refused) {
  const auto fault = [](const RunSpec& spec) { return fault_of_experts(spec, spec.mesh); };
  BOOST_TEST(fault(spec_of({.dp = 4, .ep = 2})) == "");
  BOOST_TEST(fault(spec_of({.dp = 4})) == "");
  BOOST_TEST(fault(spec_of({.dp = 6, .ep = 6})) ==
             "ep = 6 must divide the 8 experts of a layer (model.num_experts) and the 6 replicas "
             "(dp); nearest: ep = 2");
  BOOST_TEST(fault(spec_of({.dp = 2, .ep = 3})) ==
             "ep = 3 must divide the 8 experts of a layer (model.num_experts) and the 2 replicas "
             "(dp); nearest: ep = 2");
  RunSpec divided = spec_of({.dp = 8, .ep = 8});
  divided.data_parallel.division = stages::StateDivision::optim;
  divided.data_parallel.instances = 2;
  BOOST_TEST(fault(divided).find("nearest: ep = 4") != std::string::npos);
  RunSpec dense = test::small_run(1, 2);
  dense.mesh.ep = 2;
  BOOST_TEST(fault(dense).find("nearest: ep = 1") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(an_order_changes_how_many_share_experts_out) {
  const RunSpec spec = spec_of({.dp = 4, .ep = 2});
  const ClusterShape shape = first_shape(spec);
  BOOST_TEST(scaled(spec, shape, {.ep = 4}).mesh.ep == 4);
  BOOST_TEST(scaled(spec, shape, {.dp = 2}).mesh.ep == 2);
  BOOST_TEST(to_string(scaled(spec, shape, {.ep = 4})).find("dp 4 (ep 4)") != std::string::npos);
  BOOST_CHECK_EXCEPTION(scaled(spec, shape, {.dp = 3}), Error, [](const Error& error) {
    return std::string(error.what()).find("--ep 2: ep = 2 must divide") == 0;
  });
  BOOST_CHECK_EXCEPTION(scaled(spec, shape, {.ep = 0}), Error,
                        [](const Error& error) { return error.kind() == ErrorKind::usage; });
  // Of three replicas that are left none shares.
  const auto three = shrunk(spec, shape, {2});
  BOOST_REQUIRE(three);
  BOOST_TEST((three->shape.mesh.dp == 3 && three->shape.mesh.ep == 1));
  const auto two = shrunk(spec, shape, {2, 3});
  BOOST_REQUIRE(two);
  BOOST_TEST((two->shape.mesh.dp == 2 && two->shape.mesh.ep == 2));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::actors
