#include "launch/planner/search.h"

#include <boost/test/unit_test.hpp>
#include <random>
#include <set>

#include "actors/topology/assembly.h"
#include "actors/topology/memory/memory_plan.h"
#include "launch/manifest/resolve/run_spec.h"
#include "tests/launch/manifest_text.h"
#include "tests/support/seed.h"

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(search_test)

namespace {

/// A model of 2.2 billion parameters, for which a few GPUs are enough.
const std::string kModel = R"([run]
name = "found"
dir = "/runs/found"
max_steps = 12

[model]
hidden_size = 2560
intermediate_size = 6912
num_hidden_layers = 24
num_attention_heads = 20
num_key_value_heads = 20
dtype = "bfloat16"

[data]
files = ["/corpus/text.txt"]

[batch]
seq_len = 2048
micro = 1
global = 32

[recovery]
neighbour_copies = false
)";

launch::Prediction planned(const launch::Manifest& manifest,
                           const launch::MachineDescription& machine) {
  return launch::predict(launch::on_machine(launch::to_run_spec(manifest), machine.model),
                         machine.model);
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_list_is_in_order_and_says_what_a_plan_says) {
  const auto machine = launch::describe_machine("rtx-4090");
  const launch::Manifest manifest = checked(kModel);
  const launch::SearchResult found = launch::search(manifest, machine, 8, 4);
  BOOST_REQUIRE(found.layouts.size() == 4u);
  BOOST_TEST(found.considered > 500);
  double last = 0;
  for (const auto& [layout, prediction] : found.layouts) {
    BOOST_TEST(prediction.fits());
    BOOST_TEST(layout.mesh.num_ranks() == 8);
    BOOST_TEST(prediction.step.step_s >= last);
    last = prediction.step.step_s;
    const launch::Prediction plan = planned(with_layout(manifest, layout), machine);
    BOOST_TEST(plan.step.step_s == prediction.step.step_s);
    BOOST_TEST(plan.memory_bytes == prediction.memory_bytes);
  }
  std::int64_t excluded = 0;
  for (const auto& [reason, exclusion] : found.exclusions) {
    BOOST_TEST(exclusion.count > 0);
    excluded += exclusion.count;
  }
  BOOST_TEST(excluded < found.considered);
  BOOST_TEST(to_table(found).find("Excluded") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(replicas_may_share_experts_out) {
  const auto machine = launch::describe_machine("rtx-4090");
  const std::string mixture = kModel + "\n[mesh]\nauto = true\n";
  const launch::Manifest manifest = checked(
      mixture, {"model.kind=mixtral", "model.num_experts=4", "model.intermediate_size=2048"});
  const launch::SearchResult found = launch::search(manifest, machine, 8, 400);
  bool some = false;
  for (const auto& [layout, prediction] : found.layouts) {
    BOOST_TEST(layout.mesh.dp % layout.mesh.ep == 0);
    BOOST_TEST(4 % layout.mesh.ep == 0);
    some |= layout.mesh.ep > 1;
  }
  BOOST_TEST(some);
  const auto sharing =
      std::ranges::find_if(found.layouts, [](const auto& each) { return each.layout.mesh.ep > 1; });
  BOOST_REQUIRE(sharing != found.layouts.end());
  const launch::Manifest set = with_layout(manifest, sharing->layout);
  BOOST_TEST(launch::to_run_spec(set).mesh.ep == sharing->layout.mesh.ep);
}

BOOST_AUTO_TEST_CASE(stages_of_different_width_are_planned_and_a_search_makes_them_alike) {
  const auto machine = launch::describe_machine("rtx-4090");
  const launch::Manifest manifest =
      checked(kModel, {"mesh.pp=2", "mesh.stage=[{dp=2},{dp=1}]", "mesh.layout=\"16,8\""});
  const launch::Prediction wide = planned(manifest, machine);
  BOOST_TEST(wide.step.devices == 3);
  const launch::Prediction even =
      planned(checked(kModel, {"mesh.pp=2", "mesh.layout=\"16,8\""}), machine);
  BOOST_TEST(wide.step.step_s < even.step.step_s);
  const launch::SearchResult found = launch::search(manifest, machine, 4, 2);
  BOOST_REQUIRE(!found.layouts.empty());
  for (const auto& [layout, prediction] : found.layouts) {
    const launch::Manifest with = with_layout(manifest, layout);
    BOOST_TEST(with->stages.empty());
    BOOST_TEST(planned(with, machine).step.step_s == prediction.step.step_s);
  }
}

BOOST_AUTO_TEST_CASE(a_layout_found_for_mesh_auto_keeps_what_the_manifest_gives) {
  const auto machine = launch::describe_machine("rtx-4090");
  const launch::Manifest free = checked(kModel);
  const launch::Manifest manifest =
      checked(kModel, {"mesh.auto=true", "batch.micro=2", "recompute.mode=full"});
  const launch::SearchResult found = launch::search(manifest, machine, 8, 20);
  BOOST_REQUIRE(!found.layouts.empty());
  std::set<int> stages;
  for (const auto& [layout, prediction] : found.layouts) {
    BOOST_TEST(layout.micro == 2);
    BOOST_TEST((layout.recompute == stages::Recompute::Mode::full));
    stages.insert(layout.mesh.pp);
  }
  BOOST_TEST(stages.size() > 1u);
  const launch::Manifest chosen = with_layout(manifest, found.layouts.front().layout);
  BOOST_TEST(!chosen->auto_mesh);
  BOOST_TEST(chosen->mesh.num_ranks() == 8);
  // Workers and a resumed run, which read its text, look for nothing.
  const launch::Manifest read = checked(chosen.to_toml());
  BOOST_TEST(!read->auto_mesh);
  BOOST_TEST((read->mesh == chosen->mesh));
  // Else a search may change them.
  const launch::SearchResult other = launch::search(free, machine, 8, 1);
  const auto& best = other.layouts.front().layout;
  BOOST_TEST((best.micro != 2 || best.recompute != stages::Recompute::Mode::full));
}

BOOST_AUTO_TEST_CASE(a_model_without_room_is_refused_with_what_is_missing) {
  const launch::Manifest manifest =
      checked(kModel, {"model.num_hidden_layers=400", "model.hidden_size=10240"});
  expect_error(ErrorKind::unavailable, {"memory", "TiB", "rtx-4090", "more devices"},
               [&] { launch::search(manifest, launch::describe_machine("rtx-4090"), 2, 1); });
}

/// What a search counts for all stages but the largest is not needed.
BOOST_AUTO_TEST_CASE(the_fullest_rank_is_that_of_all_ranks) {
  std::mt19937_64 random(fresh_seed());
  const auto one_of = [&](auto... values) {
    const std::array all{values...};
    return all[std::uniform_int_distribution<std::size_t>(0, all.size() - 1)(random)];
  };
  for (int i = 0; i < 12; ++i) {
    actors::RunSpec spec = launch::to_run_spec(checked(kSmallManifest));
    spec.mesh = {.pp = one_of(1, 2, 3), .dp = one_of(1, 2, 4), .tp = one_of(1, 2)};
    spec.mesh.sequence_parallel = spec.mesh.tp > 1 && one_of(true, false);
    spec.layout = one_of("", "ends");
    spec.schedule.kind = spec.mesh.pp == 2 ? one_of("interleaved", "zb-h1", "1f1b") : "gpipe";
    spec.schedule.chunks = spec.schedule.kind == "interleaved" ? 2 : 1;
    spec.data_parallel.division = stages::StateDivision(one_of(0, 1, 2, 3));
    spec.model.tie_word_embeddings = one_of(true, false);
    spec.recovery.neighbour_copies = one_of(true, false);
    spec.cluster.device.kind = one_of(tensor::DeviceKind::cpu, tensor::DeviceKind::cuda);
    const actors::ClusterShape shape = actors::first_shape(spec);
    const actors::Assembly assembly = actors::assemble(spec, shape);
    std::int64_t most = 0;
    for (const actors::RankMemory& rank : actors::memory_of(spec, shape, assembly))
      most = std::max(most, rank.own_total());
    BOOST_TEST(actors::memory_of_fullest(spec, shape, assembly).own_total() == most,
               actors::to_string(shape));
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
