#include <boost/test/unit_test.hpp>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "actors/topology/schedule_kinds.h"
#include "actors/topology/shape_rules.h"
#include "actors/worker/step/plan_runner.h"
#include "tests/support/run_specs.h"
#include "tests/support/test_device.h"
#include "tests/support/thread_cluster.h"
#include "transport/edges/memory_channel.h"

// Tests steps that the interpreter gives up because their weights do not stand, with real stages
// and without processes.

namespace troupe::actors {

BOOST_AUTO_TEST_SUITE(given_up_steps_test)

namespace {

/// The weights of a step do not stand in the first attempt at it, as if they were another update's.
class FallingGate final : public StepGate {
 public:
  explicit FallingGate(stages::Stage& stage) : stage_(stage) {}
  bool weights_stand() override {
    if (attempts_++ > 0) return true;
    const tensor::Tensor gradients = stage_.gradients();
    before_.assign(gradients.as<float>(), gradients.as<float>() + gradients.num_elements());
    return false;
  }
  void after_action() override { BOOST_REQUIRE(attempts_ == 2); }
  /// Whether the gradients are those of when it was asked first.
  bool kept_gradients() const {
    return std::memcmp(before_.data(), stage_.gradients().data, before_.size() * sizeof(float)) ==
           0;
  }
  bool asked_twice() const { return attempts_ == 2; }

 private:
  stages::Stage& stage_;
  int attempts_ = 0;
  std::vector<float> before_;
};

/// Calls `train` with each rank of a pipeline, and adds what it returns.
double loss_of(const RunSpec& spec,
               const std::function<double(PlanRunner& runner, stages::Stage& stage)>& train) {
  const test::ThreadCluster cluster(spec);
  transport::MemoryNetwork network(spec.num_ranks());
  std::mutex mutex;
  double loss = 0;
  test::on_ranks(spec.num_ranks(), [&](int rank) {
    const auto device = test::make_test_device();
    const auto stage = cluster.make_stage(rank, *device);
    auto& channel = network.channel(rank);
    channel.set_deadline(std::chrono::seconds(20));
    cluster.open(channel, rank, device.get());
    PlanRunner runner = cluster.runner(rank, *stage, channel, *device);
    const double of_rank = train(runner, *stage);
    const std::lock_guard lock(mutex);
    loss += of_rank;
  });
  return loss;
}

}  // namespace

/// On every rank, after the forwards that it runs ahead. The step before has left gradients; a step
/// that is given up changes none, and leaves no message behind, and takes no slot from the next.
BOOST_AUTO_TEST_CASE(a_step_that_is_given_up_is_run_anew_with_the_same_bits) {
  constexpr std::uint64_t kAnew = 1'000;
  constexpr int kSteps = 5;  // so many that slots which were not freed would be missed
  int trained = 0;
  for (const std::string_view kind : schedule_kinds())
    for (const auto& [pp, chunks] : {std::pair{3, 1}, {2, 2}, {3, 2}}) {
      RunSpec spec = test::small_run(pp);
      spec.batch.global = 24;
      spec.schedule = {.kind = std::string(kind), .chunks = chunks};
      if (kind == "csv" || !fault_of_schedule(spec.batch, spec.mesh, spec.schedule).empty())
        continue;
      ++trained;
      const std::string what =
          spec.schedule.kind + " pp " + std::to_string(pp) + " chunks " + std::to_string(chunks);
      const double expected = loss_of(spec, [](PlanRunner& runner, stages::Stage&) {
        double loss = 0;
        for (int step = 0; step < kSteps; ++step)
          loss += runner.train(step, static_cast<std::uint64_t>(step)).loss_sum;
        return loss;
      });
      const double got = loss_of(spec, [&](PlanRunner& runner, stages::Stage& stage) {
        double loss = runner.train(0, 0).loss_sum;
        for (int step = 1; step < kSteps; ++step) {
          const auto key = static_cast<std::uint64_t>(step);
          FallingGate gate(stage);
          BOOST_TEST(runner.train(step, key, {.gate = &gate}).given_up);
          BOOST_TEST(gate.kept_gradients(), what);
          const PlanResult result = runner.train(step, key + kAnew, {.gate = &gate});
          BOOST_TEST(!result.given_up);
          BOOST_TEST(gate.asked_twice());
          loss += result.loss_sum;
        }
        return loss;
      });
      BOOST_TEST(got == expected, what);
    }
  BOOST_TEST(trained >= 20);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::actors
