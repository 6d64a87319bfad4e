#include "actors/worker/step/plan_runner.h"

#include <atomic>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstring>
#include <functional>
#include <future>
#include <map>
#include <mutex>
#include <thread>

#include "actors/topology/schedule_kinds.h"
#include "actors/topology/shape_rules.h"
#include "tensor/errors/error.h"
#include "tests/support/manual_event.h"
#include "tests/support/null_stage.h"
#include "tests/support/run_specs.h"
#include "tests/support/stage_passes.h"
#include "tests/support/test_device.h"
#include "tests/support/thread_cluster.h"
#include "transport/edges/memory_channel.h"

// Tests the interpreter with real stages and without processes: pipelines of threads over an
// in-memory network.

namespace troupe::actors {

BOOST_AUTO_TEST_SUITE(plan_runner_test)

namespace {

using transport::Direction;

struct Trained {
  std::vector<double> losses;                           // by step
  std::map<std::string, std::vector<float>> gradients;  // of the last step, by parameter
};

Trained train(
    const RunSpec& spec, int steps,
    const std::function<std::unique_ptr<tensor::Device>()>& make_device =
        [] { return test::make_test_device(); },
    transport::EdgeChoice choice = transport::EdgeChoice::automatic, bool shares_memory = false) {
  const test::ThreadCluster cluster(spec);
  std::vector<std::unique_ptr<tensor::Device>> devices;  // by rank
  for (int rank = 0; rank < spec.num_ranks(); ++rank) devices.push_back(make_device());
  transport::MemoryNetwork network(spec.num_ranks(), shares_memory);
  Trained trained{.losses = std::vector<double>(static_cast<std::size_t>(steps), 0.0)};
  std::mutex mutex;
  test::on_ranks(spec.num_ranks(), [&](int rank) {
    tensor::Device& device = *devices[static_cast<std::size_t>(rank)];
    const auto stage = cluster.make_stage(rank, device);
    auto& channel = network.channel(rank);
    channel.set_deadline(std::chrono::seconds(5));
    cluster.open(channel, rank, &device, choice);
    PlanRunner runner = cluster.runner(rank, *stage, channel, device);
    for (int step = 0; step < steps; ++step) {
      const PlanResult result = runner.train(step, static_cast<std::uint64_t>(step));
      end_backward(*stage);
      const std::lock_guard lock(mutex);
      trained.losses[static_cast<std::size_t>(step)] += result.loss_sum;
      BOOST_REQUIRE(result.bad_microbatch == -1);
      BOOST_REQUIRE(result.wall_s >= result.busy_s);
    }
    const std::lock_guard lock(mutex);
    for (const auto& parameter : stage->parameters()) {
      const auto* data = test::opened(parameter.gradient).as<float>();
      trained.gradients[parameter.name].assign(data, data + parameter.gradient.num_elements());
    }
  });
  return trained;
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_pipeline_computes_the_losses_and_gradients_of_one_stage) {
  const Trained base = train(test::small_run(), 3, [] { return tensor::make_cpu_device(1); });
  for (const auto& [pp, kind, chunks] : {std::tuple{2, "1f1b", 1},
                                         {3, "1f1b", 1},
                                         {4, "gpipe", 1},
                                         {1, "interleaved", 2},
                                         {2, "interleaved", 2},
                                         {2, "interleaved", 3},
                                         {1, "combined-1f1b", 1},
                                         {1, "combined-1f1b", 2},
                                         {2, "combined-1f1b", 3},
                                         {2, "dualpipe-v", 2}}) {
    RunSpec spec = test::small_run(pp);
    spec.schedule = {.kind = kind, .chunks = chunks};
    const Trained cut = train(spec, 3);
    BOOST_TEST((cut.losses == base.losses), kind << " pp " << pp << " chunks " << chunks);
    for (const auto& [name, gradient] : base.gradients)
      BOOST_TEST((cut.gradients.at(name) == gradient), name << " of " << kind << " pp " << pp);
  }
}

BOOST_AUTO_TEST_CASE(edges_of_a_device_carry_the_same_bits_wherever_their_slots_lie) {
  using transport::EdgeChoice;
  const auto device = [] {
    return std::make_unique<test::AsyncDevice>(
        test::fresh_device_seed(), 1, test::AsyncHealth::Fails{}, test::HostMemory::pinned);
  };
  const Trained base = train(test::small_run(), 2, [] { return tensor::make_cpu_device(1); });
  for (const auto& [pp, kind, chunks] :
       {std::tuple{2, "1f1b", 1}, {3, "zb-h1", 1}, {2, "interleaved", 2}, {2, "combined-1f1b", 3}})
    for (const auto& [choice, shares_memory] : {std::pair{EdgeChoice::peer, true},
                                                {EdgeChoice::staged, true},
                                                {EdgeChoice::staged, false}}) {
      RunSpec spec = test::small_run(pp);
      spec.schedule = {.kind = kind, .chunks = chunks};
      const Trained cut = train(spec, 2, device, choice, shares_memory);
      BOOST_TEST((cut.losses == base.losses), kind << " pp " << pp << " shares " << shares_memory);
      BOOST_TEST((cut.gradients == base.gradients), kind << " pp " << pp);
    }
}

BOOST_AUTO_TEST_CASE(every_schedule_computes_the_losses_of_one_stage) {
  for (const auto documents : {stages::Documents::joined, stages::Documents::packed}) {
    RunSpec one = test::small_run();
    one.batch.documents = documents;
    const Trained base = train(one, 2, [] { return tensor::make_cpu_device(1); });
    int trained = 0;
    for (const std::string_view kind : schedule_kinds())
      for (const int chunks : {1, 2}) {
        RunSpec spec = test::small_run(2);
        spec.batch.documents = documents;
        spec.schedule = {.kind = std::string(kind), .chunks = chunks};
        if (kind == "csv" || copies_of(spec.schedule) > 1 ||
            !fault_of_schedule(spec.batch, spec.mesh, spec.schedule).empty())
          continue;
        ++trained;
        BOOST_TEST((train(spec, 2).losses == base.losses),
                   kind << ", " << chunks << " chunks, " << name_of(documents));
      }
    BOOST_TEST(trained >= 12);
  }
}

BOOST_AUTO_TEST_CASE(dropout_is_a_function_of_the_step_s_samples) {
  const auto dropping = [](int pp, int dp, std::int64_t micro) {
    RunSpec spec = test::small_run(pp, dp);
    spec.batch.micro = micro;
    spec.model.hidden_dropout = 0.2;
    spec.model.attention_dropout = 0.1;
    return spec;
  };
  const Trained base = train(dropping(1, 1, 2), 3);
  BOOST_TEST((base.losses != train(test::small_run(), 3).losses));
  BOOST_TEST((train(dropping(2, 1, 2), 3).losses == base.losses));
  for (const auto& [pp, dp, micro] : {std::tuple{1, 1, 1}, {1, 1, 8}, {1, 2, 2}, {2, 4, 1}}) {
    const Trained other = train(dropping(pp, dp, micro), 3);
    for (std::size_t step = 0; step < base.losses.size(); ++step)
      BOOST_TEST(std::abs(other.losses[step] / base.losses[step] - 1) < 1e-6,
                 "pp " << pp << " dp " << dp << " micro " << micro);
  }
}

BOOST_AUTO_TEST_CASE(a_plan_with_split_and_reordered_backwards_computes_the_same) {
  RunSpec spec = test::small_run(2);
  spec.batch.global = 8;
  const Trained base = train(spec, 2);
  spec.schedule = {
      .kind = "csv",
      .csv = "0F0,0F1,0F2,0F3,0I3,0I1,0B0,0B2,0W3,0W1\n1F0,1F1,1F2,1F3,1B3,1I1,1I0,1W1,1B2,1W0\n"};
  const Trained other = train(spec, 2);
  BOOST_TEST((other.losses == base.losses));
  BOOST_TEST((other.gradients == base.gradients));
}

BOOST_AUTO_TEST_CASE(activations_leave_their_slots_before_late_weight_gradients) {
  RunSpec spec = test::small_run(2);
  spec.batch.global = 8;
  const Trained base = train(spec, 2);
  // Chunk 1 has two slots and gets four activations before its first weight gradient.
  spec.schedule = {.kind = "csv",
                   .csv =
                       "0F0,0F1,0F2,0F3,0B0,0B1,0B2,0B3\n"
                       "1F0,1I0,1F1,1I1,1F2,1I2,1F3,1I3,1W0,1W1,1W2,1W3\n"};
  BOOST_REQUIRE(assemble(spec, first_shape(spec)).capacities[1].forward_slots == 2);
  const Trained other = train(spec, 2);
  BOOST_TEST((other.losses == base.losses));
  BOOST_TEST((other.gradients == base.gradients));
}

BOOST_AUTO_TEST_CASE(pairs_of_forward_and_input_gradient_compute_the_same) {
  RunSpec spec = test::small_run(2);
  spec.batch.global = 8;
  for (const auto dtype : {tensor::DType::f32, tensor::DType::bf16}) {
    spec.model.dtype = dtype;
    spec.schedule = {.kind = "1f1b"};
    const Trained base = train(spec, 2);
    spec.schedule = {.kind = "csv",
                     .csv =
                         "0F0,0F1,(0F2;0I0),0W0,(0F3;0B1),0B2,0B3\n"
                         "1F0,(1F1;1I0),1W0,(1F2;1B1),(1F3;1I2),1W2,1B3\n"};
    const Trained other = train(spec, 2);
    BOOST_TEST((other.losses == base.losses));
    BOOST_TEST((other.gradients == base.gradients));
  }
}

/// Runs one rank of a pipeline of two with this plan; `neighbour` plays the other rank.
template <typename Neighbour>
void run_with(const std::string& plan, int rank, test::NullStage& stage, Neighbour&& neighbour) {
  RunSpec spec = test::small_run(2);
  spec.batch.global = 4;
  spec.schedule = {.kind = "csv", .csv = plan};
  const test::ThreadCluster cluster(spec);
  transport::MemoryNetwork network(2);
  test::on_ranks(2, [&](int self) {
    auto& channel = network.channel(self);
    channel.set_deadline(std::chrono::seconds(5));
    cluster.open(channel, self);
    if (self != rank) return neighbour(channel);
    cluster.runner(rank, stage, channel, stage.device()).train(0, 0);
    channel.flush();
  });
}

template <typename Neighbour>
void run_pair_with(int rank, Neighbour&& neighbour) {
  test::NullStage stage(1, {});
  run_with("0F0,(0F1;0B0),0B1\n1F0,(1F1;1B0),1B1\n", rank, stage, neighbour);
}

transport::MessageKey activation(int microbatch) {
  return {.step = 0, .microbatch = microbatch, .chunk = 1, .direction = Direction::forward};
}
transport::MessageKey gradient(int microbatch) {
  return {.step = 0, .microbatch = microbatch, .chunk = 0, .direction = Direction::backward};
}
/// A stage whose weight gradient of attention runs only once the test allows it.
class LateStage final : public test::NullStage {
 public:
  explicit LateStage(std::future<void> go) : NullStage(1, {}), go_(go.share()) {}
  void backward_node(const stages::BackwardCall& call, int number) override {
    const stages::Node& node = row(call.pass).nodes[static_cast<std::size_t>(number)];
    if (node.module == stages::Module::attention &&
        node.kind == stages::Node::Kind::weight_gradient)
      in_time_ &= go_.wait_for(std::chrono::seconds(5)) == std::future_status::ready;
  }
  bool in_time() const { return in_time_; }

 private:
  const std::shared_future<void> go_;
  bool in_time_ = true;
};

BOOST_AUTO_TEST_CASE(a_gradient_leaves_before_the_weight_gradient_of_the_first_attention) {
  for (const char* plan :
       {"0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n", "0F0,0F1,0B0,0B1\n1F0,(1F1;1B0),1B1\n"}) {
    std::promise<void> go;
    LateStage stage(go.get_future());
    run_with(plan, 1, stage, [&](transport::Channel& channel) {
      for (const int microbatch : {0, 1})
        channel.send(activation(microbatch), channel.acquire(activation(microbatch)));
      channel.receive(gradient(0));
      go.set_value();
      channel.receive(gradient(1));
    });
    BOOST_TEST(stage.in_time(), plan);
  }
}

BOOST_AUTO_TEST_CASE(the_backward_of_a_pair_runs_while_its_forward_waits) {
  run_pair_with(1, [](transport::Channel& channel) {
    const auto send = [&](int microbatch) {
      channel.send(activation(microbatch), channel.acquire(activation(microbatch)));
    };
    send(0);
    // In time only if the rank did not wait for the second activation.
    channel.receive(gradient(0));
    send(1);
    channel.receive(gradient(1));
  });
}

BOOST_AUTO_TEST_CASE(the_forward_of_a_pair_runs_while_its_backward_waits) {
  run_pair_with(0, [](transport::Channel& channel) {
    channel.receive(activation(0));
    channel.receive(activation(1));  // in time only if the rank did not wait for the first gradient
    for (const int microbatch : {0, 1})
      channel.send(gradient(microbatch), channel.acquire(gradient(microbatch)));
    channel.flush();
  });
}

namespace {

/// A stage on a device that runs nothing until the test says so.
class HeldStage final : public test::NullStage {
 public:
  HeldStage() : NullStage(1, {}) {}
  void forward_node(const stages::ForwardCall&, int) override { ++forwards_; }
  void backward_node(const stages::BackwardCall&, int) override { ++backwards_; }
  tensor::Event& ran(int, int) override { return ran_; }
  int forwards() const { return forwards_; }
  int backwards() const { return backwards_; }
  void run_everything() { ran_.reach(); }

 private:
  std::atomic<int> forwards_{0}, backwards_{0};
  test::ManualEvent ran_;
};

}  // namespace

BOOST_AUTO_TEST_CASE(nodes_are_queued_ahead_of_the_device_and_messages_leave_behind_it) {
  for (const char* plan :
       {"0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n", "0F0,(0F1;0B0),0B1\n1F0,1B0,1F1,1B1\n"}) {
    HeldStage stage;
    run_with(plan, 0, stage, [&](transport::Channel& channel) {
      const int in_row = static_cast<int>(stage.nodes(0, stages::Pass::forward).size());
      for (const int microbatch : {0, 1})
        channel.send(gradient(microbatch), channel.acquire(gradient(microbatch)));
      // Two forwards and two backwards, although nothing has run.
      const auto all = [&] {
        return stage.forwards() == 2 * in_row &&
               stage.backwards() ==
                   2 * static_cast<int>(stage.nodes(0, stages::Pass::backward).size());
      };
      while (!all()) std::this_thread::yield();
      for (const int microbatch : {0, 1})
        BOOST_TEST(!channel.ready({.message = activation(microbatch), .buffer = {}}), plan);
      stage.run_everything();
      for (const int microbatch : {0, 1}) {
        channel.receive(activation(microbatch));
        channel.release(activation(microbatch));
      }
      channel.flush();
    });
  }
}

BOOST_AUTO_TEST_CASE(progress_counts_what_the_device_has_finished) {
  RunSpec spec = test::small_run();
  spec.batch.global = 4;
  spec.schedule = {.kind = "csv", .csv = "0F0,0F1,0B0,0B1\n"};
  const test::ThreadCluster cluster(spec);
  transport::MemoryNetwork network(1);
  cluster.open(network.channel(0), 0);
  HeldStage stage;
  PlanRunner runner = cluster.runner(0, stage, network.channel(0), stage.device());
  auto step = std::async(std::launch::async, [&] { runner.train(0, 0); });
  while (stage.backwards() < 2 * static_cast<int>(stage.nodes(0, stages::Pass::backward).size()))
    std::this_thread::yield();
  BOOST_TEST(runner.progress() == 0u);
  stage.run_everything();
  step.get();
  BOOST_TEST(runner.progress() == 4u);
}

BOOST_AUTO_TEST_CASE(a_lost_message_is_named_by_the_rank_that_lacks_it) {
  const test::ThreadCluster cluster(test::small_run(2));
  transport::MemoryNetwork network(2);
  network.drop_next(0, 1);
  std::string said;
  test::on_ranks(2, [&](int rank) {
    test::NullStage stage(1, cluster.part(rank).edges.front().shape);
    auto& channel = network.channel(rank);
    channel.set_deadline(std::chrono::milliseconds(rank == 1 ? 50 : 60000));
    cluster.open(channel, rank);
    try {
      cluster.runner(rank, stage, channel, stage.device()).train(0, 7);
    } catch (const Error& error) {
      if (rank == 1) said = error.what();
    }
    network.channel(1 - rank).close("the test is over");
  });
  BOOST_TEST(said.find("step 7, microbatch 0 into chunk 1") != std::string::npos, said);
  BOOST_TEST(said.find("rank 0") != std::string::npos, said);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::actors
