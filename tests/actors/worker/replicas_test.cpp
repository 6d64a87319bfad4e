#include <boost/test/unit_test.hpp>
#include <map>
#include <mutex>

#include "actors/worker/step/plan_runner.h"
#include "tests/support/rank_groups.h"
#include "tests/support/run_specs.h"
#include "tests/support/test_device.h"
#include "tests/transport/ucx/ucx_nodes.h"

// Tests how replicas complete their gradients beside the passes of real stages, with a thread for
// each rank and real collectives between them.

namespace troupe::actors {

BOOST_AUTO_TEST_SUITE(replicas_test)

namespace {

struct Trained {
  std::map<std::pair<int, int>, double> losses;         // by rank and step
  std::map<std::string, std::vector<float>> gradients;  // of the last step, by rank and parameter
  std::vector<std::vector<stages::CollectiveSpan>> spans;  // of the last step, by rank
  std::vector<double> ends_s;                              // of the last step's actions, by rank
};

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

Trained train(const RunSpec& spec, int steps) {
  const test::ThreadCluster cluster(spec);
  test::UcxNodes nodes(spec.num_ranks());
  const auto ranks = static_cast<std::size_t>(spec.num_ranks());
  Trained trained{.spans = std::vector<std::vector<stages::CollectiveSpan>>(ranks),
                  .ends_s = std::vector<double>(ranks, 0.0)};
  std::mutex mutex;
  test::on_ranks(spec.num_ranks(), [&](int rank) {
    const test::ThreadRank own(cluster, nodes, rank);
    const auto data_parallel = stages::make_data_parallel(
        spec.data_parallel, *own.stage, own.groups.gradient_groups(), *own.device);
    PlanRunner runner =
        cluster.runner(rank, *own.stage, own.channel, *own.device, data_parallel.get());
    for (int step = 0; step < steps; ++step) {
      data_parallel->begin_step();
      const PlanResult result = runner.train(step, static_cast<std::uint64_t>(step));
      trained.ends_s[static_cast<std::size_t>(rank)] = now_s();
      data_parallel->finish();
      const std::lock_guard lock(mutex);
      trained.losses[{rank, step}] = result.loss_sum;
    }
    const std::lock_guard lock(mutex);
    trained.spans[static_cast<std::size_t>(rank)].assign(data_parallel->spans().begin(),
                                                         data_parallel->spans().end());
    for (const auto& parameter : own.stage->parameters()) {
      const auto* data = test::opened(parameter.gradient).as<float>();
      trained.gradients[std::to_string(rank) + " " + parameter.name].assign(
          data, data + parameter.gradient.num_elements());
    }
  });
  return trained;
}

RunSpec replicated(int dp, int pp, int tp, const char* kind = "1f1b", int chunks = 1) {
  RunSpec spec = test::small_run(pp, dp);
  spec.model.num_attention_heads = 4;
  spec.model.num_key_value_heads = 2;
  spec.model.head_dim = 4;
  spec.mesh.tp = tp;
  spec.schedule = {.kind = kind, .chunks = chunks};
  return spec;
}

stages::DataParallelSpec at_the_end() {
  return {.buckets = {.count = 1}, .overlaps = false};
}

/// Meshes of every kind of part that completes a gradient.
std::vector<RunSpec> meshes() {
  std::vector<RunSpec> specs{replicated(2, 1, 1),
                             replicated(3, 2, 1),
                             replicated(2, 2, 1, "zb-h1"),
                             replicated(2, 1, 1, "combined-1f1b", 2),
                             replicated(2, 2, 1, "dualpipe-v", 2),
                             replicated(2, 2, 1, "dualpipe", 2),
                             replicated(2, 1, 2),
                             replicated(2, 1, 2, "combined-1f1b", 2)};
  for (RunSpec& spec : specs)
    if (spec.mesh.dp == 3) spec.batch.global = 12;
  specs[6].model.num_key_value_heads = 1;  // which both shards have
  specs[7].mesh.sequence_parallel = true;
  const std::size_t count = specs.size();
  for (std::size_t i = 0; i < count; ++i) {
    specs.push_back(specs[i]);
    specs.back().model.tie_word_embeddings = true;
  }
  return specs;
}

std::string name_of(const RunSpec& spec) {
  return spec.schedule.kind + ", dp " + std::to_string(spec.mesh.dp) + ", pp " +
         std::to_string(spec.mesh.pp) + ", tp " + std::to_string(spec.mesh.tp) +
         (spec.model.tie_word_embeddings ? ", tied" : "");
}

}  // namespace

BOOST_AUTO_TEST_CASE(buckets_and_overlap_change_no_bit) {
  for (RunSpec spec : meshes()) {
    spec.data_parallel = at_the_end();
    const Trained base = train(spec, 2);
    for (const stages::BucketRule& buckets :
         {stages::BucketRule{.size = 1}, {.size = 2000}, {.count = 4}}) {
      spec.data_parallel = {.buckets = buckets};
      const Trained other = train(spec, 2);
      BOOST_TEST((other.losses == base.losses), name_of(spec));
      BOOST_TEST((other.gradients == base.gradients), name_of(spec));
    }
  }
}

BOOST_AUTO_TEST_CASE(replicas_have_the_same_gradients) {
  for (const auto wire : {tensor::DType::f32, tensor::DType::bf16}) {
    RunSpec spec = replicated(2, 2, 1);
    spec.data_parallel.wire = wire;
    const Trained trained = train(spec, 1);
    for (const auto& [name, gradient] : trained.gradients)
      if (name.starts_with("0 ") || name.starts_with("1 ")) {
        const std::string other = std::to_string(name[0] - '0' + 2) + name.substr(1);
        BOOST_TEST((trained.gradients.at(other) == gradient), name);
      }
  }
}

BOOST_AUTO_TEST_CASE(reductions_begin_while_backwards_of_other_layers_run) {
  RunSpec spec = replicated(2, 1, 1);
  spec.data_parallel = {.buckets = {.size = 1}};
  const Trained early = train(spec, 1);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    BOOST_REQUIRE(!early.spans[rank].empty());
    BOOST_TEST(early.spans[rank].front().begin_s < early.ends_s[rank]);
  }
  spec.data_parallel.overlaps = false;
  const Trained late = train(spec, 1);
  for (std::size_t rank = 0; rank < 2; ++rank)
    for (const stages::CollectiveSpan& span : late.spans[rank])
      BOOST_TEST(span.begin_s >= late.ends_s[rank]);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::actors
