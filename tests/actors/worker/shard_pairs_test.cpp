#include <atomic>
#include <boost/test/unit_test.hpp>
#include <map>
#include <mutex>

#include "actors/worker/step/plan_runner.h"
#include "tests/support/null_stage.h"
#include "tests/support/rank_groups.h"
#include "tests/support/run_specs.h"
#include "tests/support/stage_passes.h"
#include "tests/support/test_device.h"
#include "tests/support/thread_cluster.h"
#include "tests/transport/ucx/ucx_nodes.h"
#include "transport/edges/memory_channel.h"

// Tests pairs of actions in stages of several shards: which node runs next differs between shards,
// and no shard may wait in a collective that another has no reason to start.

namespace troupe::actors {

BOOST_AUTO_TEST_SUITE(shard_pairs_test)

namespace {

using stages::Pass;

struct Trained {
  std::vector<double> losses;                                           // by step
  std::map<std::pair<int, std::string>, std::vector<float>> gradients;  // by shard and parameter
};

/// Trains with a thread per rank and real collectives between them.
Trained train(const RunSpec& spec, int steps, bool in_program_order = false) {
  const test::ThreadCluster cluster(spec);
  test::UcxNodes nodes(spec.num_ranks());
  Trained trained{.losses = std::vector<double>(static_cast<std::size_t>(steps), 0.0)};
  std::mutex mutex;
  test::on_ranks(spec.num_ranks(), [&](int rank) {
    const test::ThreadRank own(cluster, nodes, rank);
    PlanRunner runner = cluster.runner(rank, *own.stage, own.channel, *own.device);
    for (int step = 0; step < steps; ++step) {
      const PlanResult result = runner.train(step, static_cast<std::uint64_t>(step),
                                             {.in_program_order = in_program_order});
      end_backward(*own.stage);
      const std::lock_guard lock(mutex);
      trained.losses[static_cast<std::size_t>(step)] += result.loss_sum;
    }
    const std::lock_guard lock(mutex);
    for (const auto& parameter : own.stage->parameters()) {
      const auto* data = test::opened(parameter.gradient).as<float>();
      trained.gradients[{own.part.place.shard, parameter.name}].assign(
          data, data + parameter.gradient.num_elements());
    }
  });
  return trained;
}

RunSpec shards_of(int pp, const char* kind, int chunks, bool sequence_parallel) {
  RunSpec spec = test::small_run(pp);
  spec.model.num_attention_heads = 4;
  spec.model.num_key_value_heads = 2;
  spec.model.head_dim = 4;
  spec.mesh.tp = 2;
  spec.mesh.sequence_parallel = sequence_parallel;
  spec.schedule = {.kind = kind, .chunks = chunks};
  return spec;
}

}  // namespace

BOOST_AUTO_TEST_CASE(pairs_in_stages_of_shards_compute_the_bits_of_one_action_after_the_other) {
  for (const bool sequence_parallel : {false, true}) {
    const Trained plain = train(shards_of(1, "1f1b", 1, sequence_parallel), 2);
    for (const auto& [pp, kind, chunks] : {std::tuple{1, "combined-1f1b", 2},
                                           {2, "combined-1f1b", 1},
                                           {2, "combined-1f1b", 3},
                                           {2, "dualpipe-v", 2}}) {
      const Trained pairs = train(shards_of(pp, kind, chunks, sequence_parallel), 2);
      BOOST_TEST((pairs.losses == plain.losses), kind << " pp " << pp);
      BOOST_TEST((pairs.gradients == plain.gradients), kind << " pp " << pp);
    }
    const Trained in_order = train(shards_of(2, "combined-1f1b", 2, sequence_parallel), 2, true);
    BOOST_TEST((in_order.losses == plain.losses && in_order.gradients == plain.gradients));
  }
}

namespace {

/// A collective that is done as soon as something else has happened.
class WorkUntil final : public tensor::Work {
 public:
  explicit WorkUntil(const bool& happened) : happened_(happened) {}
  bool done() const override { return happened_; }
  void wait() override {}
  void wait(tensor::Stream&) override {}
  double finished_s() const override { return 0; }

 private:
  const bool& happened_;
};

/// A stage in whose pair, the forward of slot 1 and the backward of slot 0, a node of each reads a
/// collective that is done only when another shard has run a node of the other action, as this
/// shard then has, too.
class EntangledStage final : public test::NullStage {
 public:
  EntangledStage() : NullStage(1, {}) {}
  const tensor::Work* awaited(Pass pass, int, int slot, int node) const override {
    const bool reads_forwards = pass == Pass::forward && slot == 1 && node == 1;
    const bool reads_backwards = pass == Pass::backward && slot == 0 && node == 5;
    if (reads_forwards && !backward_has_run_) return &until_backward_;
    if (reads_backwards && !forward_has_run_) return &until_forward_;
    return nullptr;
  }
  void forward_node(const stages::ForwardCall& call, int node) override {
    called_too_early_ |= awaited(Pass::forward, 0, call.slot, node) != nullptr;
    forward_has_run_ |= call.slot == 1 && node == 2;
  }
  void backward_node(const stages::BackwardCall& call, int node) override {
    called_too_early_ |= awaited(call.pass, 0, call.slot, node) != nullptr;
    backward_has_run_ |= call.slot == 0 && node == 3;
  }
  bool called_too_early() const { return called_too_early_; }

 private:
  bool forward_has_run_ = false, backward_has_run_ = false, called_too_early_ = false;
  const WorkUntil until_forward_{forward_has_run_}, until_backward_{backward_has_run_};
};

}  // namespace

BOOST_AUTO_TEST_CASE(an_action_of_a_pair_goes_on_while_the_other_lacks_a_collective) {
  RunSpec spec = test::small_run();
  spec.batch.global = 4;
  spec.schedule = {.kind = "csv", .csv = "0F0,(0F1;0B0),0B1\n"};
  const test::ThreadCluster cluster(spec);
  transport::MemoryNetwork network(1);
  cluster.open(network.channel(0), 0);
  EntangledStage stage;
  cluster.runner(0, stage, network.channel(0), stage.device()).train(0, 0);
  BOOST_TEST(!stage.called_too_early());
}

namespace {

/// Notes whether a forward of slot 1 has begun, or whether it had when a backward began elsewhere.
class WatchedStage final : public test::NullStage {
 public:
  explicit WatchedStage(std::atomic<bool>& begun) : NullStage(1, {}), begun_(begun) {}
  void forward_node(const stages::ForwardCall& call, int) override {
    if (call.slot == 1) begun_ = true;
  }

 private:
  std::atomic<bool>& begun_;
};
class LateStage final : public test::NullStage {
 public:
  explicit LateStage(const std::atomic<bool>& begun) : NullStage(1, {}), begun_(begun) {}
  void backward_node(const stages::BackwardCall& call, int) override {
    if (call.slot == 0 && !seen_.exchange(true)) was_begun_ = begun_.load();
  }
  bool was_begun() const { return was_begun_; }

 private:
  const std::atomic<bool>& begun_;
  std::atomic<bool> seen_{false};
  bool was_begun_ = false;
};

}  // namespace

BOOST_AUTO_TEST_CASE(a_pair_in_program_order_begins_once_both_actions_can) {
  RunSpec spec = test::small_run(2);
  spec.batch.global = 4;
  spec.schedule = {.kind = "csv", .csv = "0F0,(0F1;0B0),0B1\n1F0,1B0,1F1,1B1\n"};
  const test::ThreadCluster cluster(spec);
  transport::MemoryNetwork network(2);
  std::atomic<bool> begun{false};
  WatchedStage first(begun);
  LateStage second(begun);
  test::on_ranks(2, [&](int rank) {
    test::NullStage& stage = rank == 0 ? static_cast<test::NullStage&>(first) : second;
    cluster.open(network.channel(rank), rank);
    cluster.runner(rank, stage, network.channel(rank), stage.device())
        .train(0, 0, {.in_program_order = true});
  });
  BOOST_TEST(!second.was_begun());
  BOOST_TEST(begun.load());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::actors
