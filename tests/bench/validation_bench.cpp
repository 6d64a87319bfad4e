// Measures what ranks gain that go ahead of the validation of a step.
//
//   validation_bench KIND RANKS MICROBATCHES STEPS
//
// There is one process per rank, with real edges between them and the real interpreter, whose stage
// waits instead of computing. After its plan each rank enters a barrier of all, which stands for
// votes and commit. With a barrier it leaves that before the next step; without, it runs what it
// may of the next step first. Prints a JSON line: {"barrier_s", "ahead_s", "ratio",
// "predicted_ratio"}, the times from one step to the next and that without the barrier over that
// with it.

#include <fmt/core.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "actors/worker/step/plan_runner.h"
#include "launch/planner/measuring/measuring_processes.h"
#include "schedules/analysis/simulate.h"
#include "schedules/generators/generators.h"
#include "tensor/errors/error.h"
#include "tests/bench/wait_stage.h"
#include "tests/support/run_specs.h"
#include "tests/support/thread_cluster.h"

namespace troupe::bench {
namespace {

using nlohmann::json;

constexpr double kForward_s = 0.008;  ///< of a whole stage; I and W take the same

actors::RunSpec spec_of(const json& order) {
  actors::RunSpec spec = test::small_run(order["ranks"]);
  spec.model.num_hidden_layers = 4 * spec.mesh.pp;
  spec.batch = {.seq_len = 1, .micro = 1, .global = order["microbatches"]};
  spec.schedule = {.kind = order["kind"], .chunks = order["chunks"]};
  return spec;
}

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// One rank, which runs steps one after the other.
class RankUnderTest final : public actors::StepGate {
 public:
  RankUnderTest(const json& order, int rank, transport::UcxNode& node)
      : waits_(order["waits"]), spec_(spec_of(order)), feed_(test::counting_feed(spec_)) {
    const std::uint32_t configuration = order["configuration"];
    const actors::ClusterShape shape = actors::first_shape(spec_);
    const actors::Assembly assembly = actors::assemble(spec_, shape);
    const auto part = actors::part_of(assembly, spec_, shape, rank);
    const double share = kForward_s / (assembly.plan.num_chunks() / spec_.mesh.pp);
    stage_ = std::make_unique<WaitStage>(static_cast<int>(part.chunks.size()),
                                         tensor::Shape{1, spec_.model.hidden_size},
                                         WaitStage::Times{share, share, share});
    node.channel().open(
        {.run = 1, .configuration = configuration, .rank = rank, .edges = part.edges});
    std::vector<int> all;
    for (int i = 0; i < spec_.mesh.pp; ++i) all.push_back(i);
    group_ = node.make_group(1, configuration, 0, "votes", all, rank);
    runner_.emplace(
        *stage_, node.channel(), *device_, actors::compile_training(part),
        actors::StepTokens::Source{.feed = &feed_,
                                   .rows = {.capacity = spec_.batch.micro * spec_.batch.seq_len},
                                   .num_microbatches = assembly.plan.num_microbatches});
  }

  /// When each of the next steps ended.
  json run(int steps) {
    json ends = json::array();
    for (int i = 0; i < steps; ++i, ++step_) {
      runner_->train(step_, static_cast<std::uint64_t>(step_), {.gate = this});
      ends.push_back(now_s());
      votes_ = group_->barrier(*stream_);
      if (waits_) weights_stand();
    }
    weights_stand();
    return ends;
  }

 private:
  bool weights_stand() override {
    if (votes_) votes_->wait();
    votes_.reset();
    return true;
  }
  void after_action() override {}

  const bool waits_;
  const actors::RunSpec spec_;
  stages::DataFeed feed_;
  const std::unique_ptr<tensor::Device> device_ = tensor::make_cpu_device(1);
  const std::unique_ptr<tensor::Stream> stream_ = device_->make_stream();
  std::unique_ptr<stages::Stage> stage_;
  std::unique_ptr<tensor::ProcessGroup> group_;
  std::unique_ptr<tensor::Work> votes_;
  std::optional<actors::PlanRunner> runner_;
  std::int64_t step_ = 0;
};

launch::MeasuringProcesses::Answer make_answer(int rank, transport::UcxNode& node) {
  return [rank, &node, part = std::shared_ptr<RankUnderTest>()](const json& order) mutable -> json {
    if (order.is_number()) return part->run(order);
    part.reset();
    part = std::make_shared<RankUnderTest>(order, rank, node);
    return nullptr;
  };
}

/// The time from one step to the next, without those in which the pipeline is not full yet.
double seconds_a_step(launch::MeasuringProcesses& processes, const json& order, int steps) {
  processes.ask(order);
  processes.ask(2);  // warms up
  const std::vector<json> ends = processes.ask(steps + 1);
  const auto end_of = [&](int step) {
    double last = 0;
    for (const json& rank : ends)
      last = std::max(last, rank[static_cast<std::size_t>(step)].get<double>());
    return last;
  };
  return (end_of(steps) - end_of(0)) / steps;
}

double predicted(const actors::RunSpec& spec, schedules::Barrier barrier) {
  return schedules::simulate(actors::make_plan(spec), {.barrier = barrier}).value().step;
}

void run(const std::string& kind, int ranks, int microbatches, int steps) {
  const auto* generator = schedules::find_generator(kind);
  if (!generator) throw Error(ErrorKind::usage, "no schedule is called " + kind);
  launch::MeasuringProcesses processes(ranks, make_answer);
  json order{{"ranks", ranks},     {"microbatches", microbatches},
             {"kind", kind},       {"chunks", generator->chunks},
             {"configuration", 1}, {"waits", true}};
  const double barrier_s = seconds_a_step(processes, order, steps);
  order["waits"] = false;
  order["configuration"] = 2;
  const double ahead_s = seconds_a_step(processes, order, steps);
  const actors::RunSpec spec = spec_of(order);
  std::cout << json{{"barrier_s", barrier_s},
                    {"ahead_s", ahead_s},
                    {"ratio", ahead_s / barrier_s},
                    {"predicted_ratio", predicted(spec, schedules::Barrier::ahead) /
                                            predicted(spec, schedules::Barrier::global)}}
                   .dump()
            << std::endl;
}

}  // namespace
}  // namespace troupe::bench

int main(int argc, char** argv) {
  try {
    if (argc != 5)
      throw troupe::Error(troupe::ErrorKind::usage,
                          "usage: validation_bench KIND RANKS MICROBATCHES STEPS");
    troupe::bench::run(argv[1], std::stoi(argv[2]), std::stoi(argv[3]), std::stoi(argv[4]));
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "validation_bench: {}\n", error.what());
    return 1;
  }
}
