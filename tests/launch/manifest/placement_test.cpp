#include "launch/manifest/inputs/placement.h"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <numeric>

#include "actors/topology/assembly.h"
#include "actors/topology/memory/memory_plan.h"
#include "launch/manifest/resolve/run_spec.h"
#include "tests/launch/manifest_text.h"
#include "transport/edges/channel.h"

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(placement_test)

namespace {

launch::Placement placed(const std::vector<std::string>& overrides) {
  return launch::place(launch::to_run_spec(checked(kSmallManifest, overrides)));
}

/// Parameters of the small manifest's model, by Llama's shapes.
constexpr std::int64_t kLayer = 96 * 96 * 2 + 2 * 96 * 32 + 3 * 96 * 224 + 2 * 96;
constexpr std::int64_t kEmbedding = 256 * 96;
constexpr std::int64_t kAll = 2 * kEmbedding + 96 + 6 * kLayer;

}  // namespace

BOOST_AUTO_TEST_CASE(parameters_are_counted_where_they_lie) {
  const auto placement = placed({"mesh.pp=3"});
  BOOST_TEST(placement.parameters == kAll);
  BOOST_REQUIRE(placement.ranks.size() == 3u);
  BOOST_TEST(placement.ranks[0].parameters == kEmbedding + 2 * kLayer);
  BOOST_TEST(placement.ranks[1].parameters == 2 * kLayer);
  BOOST_TEST(placement.ranks[2].parameters == 2 * kLayer + 96 + kEmbedding);
  BOOST_TEST((placement.ranks[1].layers == std::vector<int>{2, 3}));
  // Equal costs of F, I and W: (p - 1) / (m + p - 1).
  BOOST_TEST(placement.simulation.bubble_rate == 0.2, boost::test_tools::tolerance(1e-12));
}

// The bubble of two stages of 1f1b of which the second takes `times` as long: it computes all the
// time but while the first computes the first forward and the last backward.
double bubble_of(double microbatches, double times) {
  return 1 - microbatches * (1 + times) / 2 / (microbatches * times + 1);
}

BOOST_AUTO_TEST_CASE(a_stage_takes_as_long_as_its_layers_samples_and_shards_say) {
  const auto bubble = [](std::vector<std::string> overrides) {
    overrides.push_back("mesh.pp=2");
    overrides.push_back("batch.micro=1");
    return placed(overrides).simulation.bubble_rate;
  };
  const auto close = boost::test_tools::tolerance(1e-12);
  const double m = placed({"mesh.pp=2", "batch.micro=1"}).plan.num_microbatches;
  BOOST_TEST(bubble({"mesh.stage=[{dp=2},{dp=1}]"}) == bubble_of(m / 2, 2), close);
  BOOST_TEST(bubble({"mesh.stage=[{tp=2},{tp=1}]"}) == bubble_of(m, 2), close);
  BOOST_TEST(bubble({"mesh.stage=[{layers=2},{layers=4}]"}) == bubble_of(m, 2), close);
  BOOST_TEST(bubble({"mesh.stage=[{dp=2,layers=4},{dp=1,layers=2}]"}) == bubble_of(m / 2, 1),
             close);
}

BOOST_AUTO_TEST_CASE(a_tied_head_is_counted_with_its_embedding) {
  const auto placement = placed({"mesh.pp=3", "model.tie_word_embeddings=true"});
  BOOST_TEST(placement.parameters == kAll - kEmbedding);
  BOOST_TEST(placement.ranks[0].parameters == kEmbedding + 2 * kLayer);
  BOOST_TEST(placement.ranks[2].parameters == 2 * kLayer + 96);
  BOOST_TEST(placement.ranks[2].memory.allocated.stage.weights >=
             4 * (2 * kLayer + 96 + kEmbedding));  // its copy takes memory
}

BOOST_AUTO_TEST_CASE(every_layout_holds_the_whole_model_once_a_replica) {
  for (const std::vector<std::string>& layout :
       {std::vector<std::string>{},
        {"mesh.pp=4"},
        {"mesh.pp=2", "schedule.kind=interleaved", "schedule.chunks=3"},
        {"mesh.pp=2", "mesh.dp=2"},
        {"mesh.pp=6", "schedule.kind=gpipe"},
        {"mesh.pp=4", "mesh.layout=\"E|t*6||L\""}}) {
    const auto placement = placed(layout);
    std::int64_t parameters = 0, total = 0;
    std::vector<int> layers;
    int rank = 0;
    for (const auto& row : placement.ranks) {
      BOOST_TEST(row.rank == rank++);
      parameters += row.parameters;
      layers.insert(layers.end(), row.layers.begin(), row.layers.end());
      const actors::AllocatedMemory& memory = row.memory.allocated;
      BOOST_TEST(memory.stage.weights >= 4 * row.parameters);
      BOOST_TEST(row.memory.total() ==
                 memory.stage.total() + memory.collectives + memory.pools + actors::kProcessBytes);
      total += row.memory.total();
    }
    const auto replicas = static_cast<std::size_t>(placement.ranks.back().replica + 1);
    BOOST_TEST(parameters == kAll * static_cast<std::int64_t>(replicas));
    BOOST_TEST(total == placement.total_bytes());
    BOOST_TEST(layers.size() == 6u * replicas);
    BOOST_TEST(std::accumulate(layers.begin(), layers.end(), 0) == 15 * static_cast<int>(replicas));
  }
}

BOOST_AUTO_TEST_CASE(a_plan_shows_what_recompute_saves) {
  const auto kept = placed({"mesh.pp=3"});
  BOOST_TEST(kept.saved_bytes == 0);
  for (const std::string mode : {"selective", "output", "full"}) {
    const auto placement = placed({"mesh.pp=3", "recompute.mode=" + mode});
    BOOST_TEST(placement.saved_bytes > 0);
    BOOST_TEST(placement.total_bytes() + placement.saved_bytes == kept.total_bytes());
    BOOST_TEST(placement.digest != kept.digest);
  }
  // Of 4 microbatches on 3 stages the backwards take 3 instead of 2: (p - 1) / (m + p - 1) still.
  const auto full = placed({"mesh.pp=3", "recompute.mode=full"});
  BOOST_TEST(full.simulation.wall * 3 == kept.simulation.wall * 4,
             boost::test_tools::tolerance(1e-12));
  const auto part = placed({"mesh.pp=3", "recompute.mode=full", "recompute.method=block"});
  BOOST_TEST(part.simulation.wall * 3 == 2 * kept.simulation.wall * 3.5,
             boost::test_tools::tolerance(1e-12));
}

BOOST_AUTO_TEST_CASE(transport_buffers_are_slots_and_two_to_send) {
  const auto placement = placed({"mesh.pp=2", "recovery.neighbour_copies=false"});
  const std::int64_t message = 2 * 64 * 96 * 4;
  BOOST_TEST(placed({}).ranks[0].memory.allocated.pools == 0);
  for (const auto& row : placement.ranks) {
    const std::int64_t pools = row.memory.allocated.pools;
    BOOST_TEST(pools % message == 0);
    BOOST_TEST(pools >= 4 * message);        // two to send, two to receive
    BOOST_TEST(pools <= (2 + 8) * message);  // no more slots than microbatches
  }
}

BOOST_AUTO_TEST_CASE(slots_that_two_processes_map_are_counted_once) {
  const auto spec = launch::to_run_spec(
      checked(kSmallManifest, {"mesh.pp=3", "recovery.neighbour_copies=false"}));
  const auto shape = actors::first_shape(spec);
  const auto assembly = actors::assemble(spec, shape);
  std::int64_t slots = 0, edges = 0;
  for (int rank = 0; rank < 3; ++rank)
    for (const auto& edge : actors::part_of(assembly, spec, shape, rank).edges)
      if (edge.to == rank) slots += edge.slots, ++edges;
  BOOST_TEST(edges == 4);  // each edge counts at both of its ranks
  std::int64_t pools = 0;
  for (const auto& row : launch::place(spec).ranks) pools += row.memory.allocated.pools;
  const std::int64_t message = 2 * 64 * 96 * 4;
  BOOST_TEST(pools == (slots + edges * transport::kSendBuffers) * message);
}

BOOST_AUTO_TEST_CASE(copies_of_a_neighbours_state_are_planned) {
  const auto without = placed({"mesh.pp=2", "recovery.neighbour_copies=false"});
  const auto with = placed({"mesh.pp=2"});
  for (std::size_t i = 0; i < 2; ++i) {
    const std::int64_t state =
        without.ranks[i].memory.allocated.stage.weights;  // of one tensor per parameter
    BOOST_TEST(with.ranks[i].memory.allocated.stage.optimizer -
                   without.ranks[i].memory.allocated.stage.optimizer ==
               3 * state);
    // Two of the neighbour's whole states, of about this size, and what is sent.
    BOOST_TEST(with.ranks[i].memory.allocated.pools - without.ranks[i].memory.allocated.pools >
               2 * 3 * state);
  }
  BOOST_TEST(placed({}).ranks[0].memory.allocated.pools == 0);
}

BOOST_AUTO_TEST_CASE(a_divided_state_takes_less_and_its_twins_as_much_again) {
  const std::string optim = "data_parallel.sharding=optim";
  const auto none = placed({"mesh.dp=4"}), twins = placed({"mesh.dp=4", optim});
  const auto alone = placed({"mesh.dp=4", optim, "recovery.neighbour_copies=false"});
  std::int64_t of_alone = 0, of_twins = 0, fullest = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    const auto& row = alone.ranks[i];
    BOOST_TEST(row.formula.optimizer == 8 * row.parameters / 4);
    BOOST_TEST(twins.ranks[i].formula.optimizer == 2 * row.formula.optimizer);
    BOOST_TEST(none.ranks[i].formula.optimizer == 8 * row.parameters);
    // Half a piece more or less, in one bucket of this small model.
    BOOST_TEST(static_cast<double>(row.memory.allocated.stage.optimizer) ==
                   static_cast<double>(row.formula.optimizer),
               boost::test_tools::tolerance(0.05));
    of_alone += row.memory.allocated.stage.optimizer;
    of_twins += twins.ranks[i].memory.allocated.stage.optimizer;
    fullest = std::max(fullest, twins.ranks[i].memory.allocated.total());
  }
  BOOST_TEST(of_twins == 2 * of_alone);
  BOOST_TEST(none.sharding.at("optim") == fullest);
  BOOST_TEST(twins.sharding.at("none") == none.ranks[0].memory.allocated.total());
  BOOST_TEST(twins.sharding.at("none") > fullest);
  BOOST_TEST(placed({}).sharding.size() == 1u);
}

BOOST_AUTO_TEST_CASE(layers_in_a_row_are_written_as_ranges) {
  BOOST_TEST(launch::ranges_text({0, 1, 2, 6, 8, 9}) == "0-2, 6, 8-9");
  BOOST_TEST(launch::ranges_text({}) == "");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
