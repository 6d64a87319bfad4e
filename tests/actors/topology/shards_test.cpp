#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cstring>
#include <deque>
#include <set>

#include "actors/topology/assembly.h"
#include "actors/topology/state/state_parts.h"
#include "actors/topology/state/state_plan.h"
#include "actors/worker/state/unit_state.h"
#include "stages/decoder/parameters/parameters.h"
#include "tests/support/run_specs.h"

// Ranks, edges, groups and moves of state of stages that are several tensor-parallel shards.

namespace troupe::actors {

BOOST_AUTO_TEST_SUITE(shards_test)

namespace {

RunSpec spec_of(const RunSpec::Mesh& mesh) {
  RunSpec spec = test::small_run(mesh.pp, mesh.dp);
  spec.mesh = mesh;
  spec.batch.global = 24;
  spec.model.num_attention_heads = 4;
  spec.model.num_key_value_heads = 2;
  spec.model.head_dim = spec.model.hidden_size / 4;
  spec.model.intermediate_size = 48;
  spec.model.vocab_size = 257;
  return spec;
}

RunSpec mixture_spec_of(const RunSpec::Mesh& mesh) {
  RunSpec spec = spec_of(mesh);
  spec.model.kind = stages::ModelKind::qwen3_moe;
  spec.model.num_hidden_layers = 3;
  spec.model.experts = {.count = 4, .per_token = 2, .width = 16, .dense_layers = {1}};
  return spec;
}

RunSpec gpt2_spec_of(const RunSpec::Mesh& mesh) {
  RunSpec spec = spec_of(mesh);
  spec.model.kind = stages::ModelKind::gpt2;
  spec.model.num_key_value_heads = spec.model.num_attention_heads;
  spec.model.max_position_embeddings = 70;
  spec.model.tie_word_embeddings = true;
  return spec;
}

/// The elements of a parameter, numbered row by row, that a region holds.
std::vector<std::int64_t> elements_of(const stages::ParameterInfo& info, const tensor::Region& r) {
  std::vector<std::int64_t> elements;
  for (std::int64_t row = r.row; row < r.row + r.rows; ++row)
    for (std::int64_t column = r.column; column < r.column + r.columns; ++column)
      elements.push_back(row * tensor::whole(info.shape).columns + column);
  return elements;
}

/// A part of one unit, every element of it with the same value, or with its own number.
struct Memory {
  Memory(const stages::ModelConfig& model, int unit, const StateParts& parts, int part,
         bool filled) {
    for (const auto& info : stages::parameters_of(model)) {
      if (unit_of(info, model) != unit) continue;
      ParameterState& held = state.emplace_back();
      held.info = info;
      held.region = parts.region(part, info);
      const auto numbers = elements_of(info, held.region);
      for (TensorRow& tensor : held.tensors) {
        values.emplace_back(numbers.size(), -1.0f);
        if (filled) std::ranges::copy(numbers, values.back().begin());
        if (!numbers.empty())
          tensor.add({values.back().data(), tensor::DType::f32, {std::ssize(numbers)}});
      }
    }
  }
  std::deque<std::vector<float>> values;
  UnitState state;
};

void copy(const TensorRow& source, const TensorRow& target) {
  std::int64_t at = 0;
  for (const tensor::Tensor& x : target.tensors()) {
    const TensorRow part = source.part(at, x.num_elements());
    float* to = x.as<float>();
    for (const tensor::Tensor& y : part.tensors()) {
      std::memcpy(to, y.data, y.num_bytes());
      to += y.num_elements();
    }
    at += x.num_elements();
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(ranks_count_through_shards_then_stages_then_replicas) {
  const RunSpec::Mesh mesh{.pp = 3, .dp = 2, .tp = 4};
  BOOST_TEST(mesh.num_ranks() == 24);
  int rank = 0;
  for (int replica = 0; replica < 2; ++replica)
    for (int stage = 0; stage < 3; ++stage)
      for (int shard = 0; shard < 4; ++shard, ++rank) {
        const RankPlace place = place_of(mesh, rank);
        BOOST_TEST((place.replica == replica && place.stage == stage && place.shard == shard));
        BOOST_TEST(rank_at(mesh, place) == rank);
      }
  BOOST_TEST((ranks_along(mesh, place_of(mesh, 18), Axis::tp) == std::vector{16, 17, 18, 19}));
  BOOST_TEST((ranks_along(mesh, place_of(mesh, 18), Axis::dp) == std::vector{6, 18}));
}

BOOST_AUTO_TEST_CASE(each_shard_sends_its_slice_to_the_same_shard) {
  for (const bool sequence_parallel : {false, true}) {
    const RunSpec spec =
        spec_of({.pp = 2, .dp = 2, .tp = 4, .sequence_parallel = sequence_parallel});
    const ClusterShape shape = first_shape(spec);
    const Assembly assembly = assemble(spec, shape);
    for (int rank = 0; rank < shape.num_ranks(); ++rank) {
      const RankAssembly part = part_of(assembly, spec, shape, rank);
      BOOST_TEST(part.edges.size() == 2);
      for (const transport::Edge& edge : part.edges) {
        BOOST_TEST(std::abs(edge.from - edge.to) == 4);
        BOOST_TEST(edge.shape.num_elements() * 4 ==
                   spec.batch.micro * spec.batch.seq_len * spec.model.hidden_size);
      }
      const int shard = rank % 4;
      BOOST_TEST(part.shard_ranks[static_cast<std::size_t>(shard)] == rank);
      BOOST_TEST(part.replica_ranks.size() == 2);
      // Two shards share each of the two key and value heads.
      BOOST_TEST((part.kv_head_ranks == std::vector{rank - shard % 2, rank - shard % 2 + 1}));
      BOOST_TEST(part.stage.sharding.shard == shard);
    }
  }
}

BOOST_AUTO_TEST_CASE(digests_differ_where_shards_do) {
  std::set<std::uint64_t> digests;
  for (const auto& mesh : {RunSpec::Mesh{}, RunSpec::Mesh{.tp = 2}, RunSpec::Mesh{.tp = 4},
                           RunSpec::Mesh{.tp = 2, .sequence_parallel = true}}) {
    const RunSpec spec = spec_of(mesh);
    digests.insert(assemble(spec, first_shape(spec)).digest);
  }
  BOOST_TEST(digests.size() == 4);
}

BOOST_AUTO_TEST_CASE(a_shard_copies_its_state_to_its_neighbour) {
  const RunSpec two = spec_of({.pp = 2, .tp = 2});
  BOOST_TEST(copies_state(two, first_shape(two)));
  BOOST_TEST(neighbour_of(first_shape(two), 1, 1) == 3);
  BOOST_TEST(neighbour_of(first_shape(two), 3, 1) == 1);
  const RunSpec one = spec_of({.pp = 1, .tp = 4});
  BOOST_TEST(copies_state(one, first_shape(one)));
  BOOST_TEST(neighbour_of(first_shape(one), 3, 1) == 0);
  BOOST_TEST(neighbour_of(first_shape(one), 0, -1) == 3);
}

BOOST_AUTO_TEST_CASE(the_units_of_a_rank_are_the_parameters_that_it_holds) {
  for (const auto make : {spec_of, gpt2_spec_of})
    for (const int pp : {1, 2, 3}) {
      const RunSpec spec = make({.pp = pp, .tp = 2});
      const ClusterShape shape = first_shape(spec);
      const Assembly assembly = assemble(spec, shape);
      for (int rank = 0; rank < shape.num_ranks(); ++rank) {
        const auto units = units_of(spec, shape, rank);
        BOOST_TEST(std::ranges::is_sorted(units));
        std::vector<std::string> expected, held;
        for (const auto& info : stages::parameters_of(spec.model))
          if (std::ranges::count(units, unit_of(info, spec.model)) > 0)
            expected.push_back(info.name);
        const auto layout = stages::lay_out_parameters(part_of(assembly, spec, shape, rank).stage);
        for (const auto& entry : layout.entries) held.push_back(entry.info.name);
        BOOST_TEST(held == expected, boost::test_tools::per_element());
      }
    }
}

BOOST_AUTO_TEST_CASE(parameters_are_in_the_order_of_their_units) {
  for (const auto make : {spec_of, gpt2_spec_of}) {
    const RunSpec spec = make({});
    std::vector<int> units;
    for (const auto& info : stages::parameters_of(spec.model))
      units.push_back(unit_of(info, spec.model));
    BOOST_TEST(std::ranges::is_sorted(units));
  }
}

RunSpec::Mesh wide(std::vector<RunSpec::Width> widths) {
  RunSpec::Mesh mesh{.pp = static_cast<int>(widths.size())};
  mesh.set_widths(std::move(widths));
  return mesh;
}

const std::vector<RunSpec::Mesh> kMeshes{{},
                                         {.tp = 2},
                                         {.tp = 4},
                                         {.pp = 2},
                                         {.dp = 2},
                                         {.dp = 3, .tp = 2},
                                         {.pp = 2, .dp = 3},
                                         {.pp = 2, .dp = 2, .tp = 2},
                                         wide({{.dp = 2}, {.dp = 1}}),
                                         wide({{.tp = 2}, {.dp = 2}})};
const std::vector<RunSpec::Mesh> kMeshesOfExperts{{},
                                                  {.tp = 2},
                                                  {.dp = 2},
                                                  {.dp = 2, .ep = 2},
                                                  {.dp = 4, .ep = 2},
                                                  {.dp = 4, .ep = 4},
                                                  {.pp = 2, .dp = 2, .tp = 2, .ep = 2}};

/// From every mesh to every other: what the moves carry is all that the new ranks keep. If replicas
/// have twins, one of the old ranks is dead.
void check_moves(const RunSpec& spec, const std::vector<RunSpec::Mesh>& meshes = kMeshes) {
  for (const auto& from : meshes)
    for (const auto& to : meshes) {
      // Of mixed pairs the small ones: the others take long.
      const auto& even = from.is_even() ? from : to;
      if (from.is_even() != to.is_even() && even.num_ranks() > 2) continue;
      RunSpec before = spec, after = spec;
      before.mesh = from;
      after.mesh = to;
      Configuration kept{.number = 1, .shape = first_shape(before), .members = {}};
      Configuration next{.number = 2, .shape = first_shape(after), .members = {}};
      const StateParts given_by(spec, kept.shape), taken_by(spec, next.shape);
      int dead = kept.num_ranks() / 2;
      while (dead >= 0 && !state_sharding_of(spec, kept.shape, dead).twins) --dead;
      std::map<std::uint64_t, StateInventory> inventory;
      for (int i = 0; i < std::max(kept.num_ranks(), next.num_ranks()); ++i) {
        const Member member{.id = i, .incarnation = static_cast<std::uint64_t>(i) + 100};
        if (i < kept.num_ranks()) kept.members.push_back(member);
        next.members.push_back(i == dead ? Member{.id = i, .incarnation = 900} : member);
        if (i != dead) inventory[member.incarnation] = {.step = i < kept.num_ranks() ? 7 : -1};
      }
      const auto plan = plan_state(spec, kept, next, inventory, 7);
      BOOST_REQUIRE(plan);
      BOOST_TEST((plan->kept == kept.shape));
      for (int rank = 0; rank < next.num_ranks(); ++rank)
        for (const int unit : units_of(after, next.shape, rank))
          for (const int into : taken_by.kept_by(rank)) {
            Memory taken(spec.model, unit, taken_by, into, false);
            for (const StateMove& move : plan->moves) {
              if (move.to != rank || move.unit != unit) continue;
              BOOST_TEST(move.from != dead);
              const auto carried = [&](const stages::ParameterInfo& info) {
                return moved_region(info, spec.model, given_by, move.part, taken_by, into);
              };
              const Memory given(spec.model, unit, given_by, move.part, true);
              const TensorRow source = moved_row(given.state, carried);
              const TensorRow target = moved_row(taken.state, carried);
              BOOST_REQUIRE(source.size() == target.size());
              copy(source, target);
            }
            const Memory expected(spec.model, unit, taken_by, into, true);
            BOOST_REQUIRE_MESSAGE(taken.values == expected.values,
                                  "unit " << unit << " of rank " << rank << ", from "
                                          << to_string(kept.shape) << " to "
                                          << to_string(next.shape));
          }
    }
}

BOOST_AUTO_TEST_CASE(state_of_any_shape_becomes_that_of_any_other) {
  for (RunSpec spec : {spec_of({}), gpt2_spec_of({})}) {
    check_moves(spec);
    spec.data_parallel = {.division = stages::StateDivision::optim, .buckets = {.size = 3000}};
    check_moves(spec);
    spec.recovery.neighbour_copies = false;
    check_moves(spec);
  }
}

BOOST_AUTO_TEST_CASE(experts_that_replicas_share_out_come_to_those_of_any_other_number) {
  RunSpec spec = mixture_spec_of({});
  check_moves(spec, kMeshesOfExperts);
  spec.data_parallel = {.division = stages::StateDivision::optim, .buckets = {.size = 3000}};
  check_moves(spec, kMeshesOfExperts);
  spec.recovery.neighbour_copies = false;
  check_moves(spec, kMeshesOfExperts);
}

/// Two copies of each slice lie on replicas that follow each other.
BOOST_AUTO_TEST_CASE(slices_survive_any_death_but_that_of_two_neighbours) {
  RunSpec spec = spec_of({.dp = 4});
  spec.data_parallel.division = stages::StateDivision::optim;
  Configuration kept{.number = 1, .shape = first_shape(spec), .members = {}};
  for (int i = 0; i < 4; ++i)
    kept.members.push_back({.id = i, .incarnation = static_cast<std::uint64_t>(i) + 100});
  const auto survives = [&](const std::set<int>& dead) {
    Configuration next{.number = 2, .shape = kept.shape, .members = {}};
    std::map<std::uint64_t, StateInventory> inventory;
    for (int i = 0; i < 4; ++i) {
      const std::uint64_t incarnation = (dead.contains(i) ? 900u : 100u) + static_cast<unsigned>(i);
      next.members.push_back({.id = i, .incarnation = incarnation});
      if (!dead.contains(i)) inventory[incarnation] = {.step = 7};
    }
    return plan_state(spec, kept, next, inventory, 7).has_value();
  };
  for (int i = 0; i < 4; ++i) {
    BOOST_TEST(survives({i}));
    BOOST_TEST(!survives({i, (i + 1) % 4}));
    BOOST_TEST(survives({i, (i + 2) % 4}));
  }
  spec.recovery.neighbour_copies = false;
  BOOST_TEST(survives({}));
  BOOST_TEST(!survives({2}));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::actors
