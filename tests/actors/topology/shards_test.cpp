#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cstring>
#include <deque>
#include <set>

#include "actors/topology/assembly.h"
#include "actors/topology/state_plan.h"
#include "actors/worker/unit_state.h"
#include "stages/parameters.h"
#include "tests/support/run_specs.h"

// Ranks, edges, groups and moves of state of stages that are several tensor-parallel shards.

namespace troupe::actors {
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

/// A shard's part of one unit, every element of it with the same value, or with its own number.
struct Memory {
  Memory(const stages::ModelConfig& model, int unit, const stages::Sharding& sharding,
         bool filled) {
    for (const auto& info : stages::parameters_of(model)) {
      if (unit_of(info, model) != unit) continue;
      ParameterState& part = state.emplace_back();
      part.info = info;
      part.region = region_of(info, model, sharding);
      const auto numbers = elements_of(info, part.region);
      const auto shape = local_shape(info, model, sharding);
      for (TensorRow& tensor : part.tensors) {
        values.emplace_back(static_cast<std::size_t>(shape.num_elements()), filled ? 0.0f : -1.0f);
        for (std::size_t i = 0; i < numbers.size() && filled; ++i)
          values.back()[i] = static_cast<float>(numbers[i]);
        tensor.add({values.back().data(), tensor::DType::f32, shape});
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

/// Whether two memories have the same values, padding aside.
bool holds_alike(const Memory& a, const Memory& b) {
  for (std::size_t i = 0; i < a.values.size(); ++i) {
    const auto size = a.state[i / kTensorsOfParameter].region.num_elements();
    if (!std::equal(a.values[i].begin(), a.values[i].begin() + size, b.values[i].begin()))
      return false;
  }
  return true;
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

void check_moves(const RunSpec& spec) {
  for (const int from : {1, 2, 4})
    for (const int to : {1, 2, 4}) {
      RunSpec before = spec, after = spec;
      before.mesh.tp = from;
      after.mesh.tp = to;
      Epoch kept{.number = 1, .shape = first_shape(before), .members = {}};
      Epoch next{.number = 2, .shape = first_shape(after), .members = {}};
      std::map<std::uint64_t, StateInventory> inventory;
      for (int i = 0; i < std::max(from, to); ++i) {
        const Member member{.id = i, .incarnation = static_cast<std::uint64_t>(i) + 100};
        if (i < from) kept.members.push_back(member);
        next.members.push_back(member);
        inventory[member.incarnation] = {.step = i < from ? 7 : -1};
      }
      const auto plan = plan_state(spec, kept, next, inventory, 7);
      BOOST_REQUIRE(plan);
      BOOST_TEST(plan->shards == from);
      for (int rank = 0; rank < to; ++rank) {
        const stages::Sharding into = sharding_of(next.shape, rank);
        for (const int unit : units_of(after, next.shape, rank)) {
          Memory taken(spec.model, unit, into, false);
          for (const StateMove& move : plan->moves) {
            if (move.to != rank || move.unit != unit) continue;
            const stages::Sharding giver{.size = from, .shard = move.shard};
            const Memory given(spec.model, unit, giver, true);
            const TensorRow source = moved_row(given.state, spec.model, giver, into);
            const TensorRow target = moved_row(taken.state, spec.model, giver, into);
            BOOST_REQUIRE(source.size() == target.size());
            BOOST_TEST(source.size() > 0);
            BOOST_TEST(move.from == move.shard);  // rank = shard of the old epoch
            copy(source, target);
          }
          const Memory expected(spec.model, unit, into, true);
          BOOST_REQUIRE_MESSAGE(holds_alike(expected, taken),
                                "unit " << unit << " from tp " << from << " to " << to);
        }
      }
    }
}

BOOST_AUTO_TEST_CASE(state_of_any_shards_becomes_that_of_any_others) {
  check_moves(spec_of({}));
  check_moves(gpt2_spec_of({}));
}

}  // namespace troupe::actors
