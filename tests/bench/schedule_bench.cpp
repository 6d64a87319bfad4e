// Compares the time that the simulator predicts for a schedule with the time that the runtime
// takes.
//
//   schedule_bench compute|wait RANKS MICROBATCHES STEPS KIND...
//   schedule_bench slow|slow-sends|shards|experts RANKS MICROBATCHES STEPS KIND...
//
// There is one process per rank, with real edges between them and the real interpreter. compute:
// the measured model, one thread per rank. wait: stages that wait instead of computing. slow:
// stages that wait, and messages that take a tenth of a stage's forward longer; slow-sends: as
// slow, and senders wait for the arrival of their messages; shards: each stage is the first of two
// shards, waits instead of computing, and has collectives that take a tenth of a node longer;
// experts: the same of the first of two replicas that share experts out, whose tokens travel as
// long. Prints one JSON line per kind, medians over the steps: {"kind", "measured_s",
// "simulated_s", "error", "measured_work", "simulated_work", "hop_s", "exposed_s", "collective_s"}.
// The simulator is given the mean times of every chunk's actions in the step, and the hop. "_work"
// is in units of the step's own work for a rank: machines change their speed from one schedule's
// step to the next.

#include <fmt/core.h>
#include <sched.h>

#include <cmath>
#include <iostream>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <thread>

#include "actors/worker/step/plan_runner.h"
#include "launch/planner/measuring/measuring_processes.h"
#include "schedules/analysis/simulate.h"
#include "schedules/generators/generators.h"
#include "stages/decoder/stage/transformer_stage.h"
#include "tensor/errors/error.h"
#include "tests/bench/slow_channel.h"
#include "tests/bench/timing.h"
#include "tests/bench/wait_shard.h"
#include "tests/bench/wait_stage.h"
#include "tests/bench/workload.h"
#include "tests/support/thread_cluster.h"

namespace troupe::bench {
namespace {

using nlohmann::json;
using schedules::Op;

constexpr double kForward_s = 0.008;       ///< of a whole stage that waits; I and W take the same
constexpr double kShardForward_s = 0.064;  ///< the same of a shard
constexpr int kLayers = 4;                 ///< of a stage that waits

actors::RunSpec spec_of(const json& order) {
  actors::RunSpec spec;
  const int ranks = order["ranks"];
  spec.mesh = {.pp = ranks, .dp = 1};
  spec.model = measured_workload("float32").model;
  const bool computes = order["mode"] == "compute";
  if (!computes) spec.model.num_hidden_layers = kLayers * ranks;
  spec.batch = {.seq_len = computes ? 128 : 1, .micro = 1, .global = order["microbatches"]};
  spec.schedule = {.kind = order["kind"], .chunks = order["chunks"], .csv = ""};
  return spec;
}

void stay_on_one_core(int rank) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  CPU_SET(static_cast<unsigned>(rank) % std::thread::hardware_concurrency(), &cores);
  sched_setaffinity(0, sizeof cores, &cores);
}

/// One rank under one schedule.
class RankUnderTest {
 public:
  RankUnderTest(const json& order, int rank, transport::UcxNode& node)
      : spec_(spec_of(order)), feed_(test::counting_feed(spec_)) {
    const actors::ClusterShape shape = actors::first_shape(spec_);
    const actors::Assembly assembly = actors::assemble(spec_, shape);
    const auto part = actors::part_of(assembly, spec_, shape, rank);
    const std::string mode = order["mode"];
    if (mode == "compute") {
      stay_on_one_core(rank);
      stage_ = stages::make_transformer_stage(part.stage, *device_);
      stages::initialize(*stage_, spec_.model, 1, 1);
    } else if (mode == "shards" || mode == "experts") {
      const auto with = mode == "shards" ? WaitShard::With::shard : WaitShard::With::experts;
      make_shard(order["configuration"], rank, static_cast<int>(part.chunks.size()), node, with);
    } else {
      const double share = kForward_s / (assembly.plan.num_chunks() / spec_.mesh.pp);
      stage_ = std::make_unique<WaitStage>(static_cast<int>(part.chunks.size()),
                                           tensor::Shape{1, spec_.model.hidden_size},
                                           WaitStage::Times{share, share, share});
    }
    node.channel().open(
        {.run = 1, .configuration = order["configuration"], .rank = rank, .edges = part.edges});
    if (mode.starts_with("slow"))
      slow_.emplace(node.channel(), std::chrono::microseconds(static_cast<int>(kForward_s * 1e5)),
                    mode == "slow-sends");
    runner_.emplace(
        *stage_, slow_ ? static_cast<transport::Channel&>(*slow_) : node.channel(), *device_,
        actors::compile(part, part.actions),
        actors::StepTokens::Source{.feed = &feed_,
                                   .rows = {.capacity = spec_.batch.micro * spec_.batch.seq_len},
                                   .num_microbatches = assembly.plan.num_microbatches});
  }

  json step() {
    const double exposed_before = slow_ ? slow_->exposed_s() : 0;
    const auto begin = std::chrono::steady_clock::now().time_since_epoch();
    const auto result = runner_->train(step_, static_cast<std::uint64_t>(step_), {.record = true});
    const auto end = std::chrono::steady_clock::now().time_since_epoch();
    ++step_;
    json rows = json::array();
    for (const auto& row : runner_->recorded()) {
      const auto& next = row.instruction;
      const auto& times = row.times;
      rows.push_back({next.global_chunk, static_cast<int>(next.op), next.microbatch, times.begin_s,
                      times.end_s, times.waited_s, times.busy_s, times.sent_s});
    }
    return {{"begin", std::chrono::duration<double>(begin).count()},
            {"end", std::chrono::duration<double>(end).count()},
            {"exposed", slow_ ? slow_->exposed_s() - exposed_before : 0},
            {"collective", result.collective_s},
            {"rows", rows}};
  }

 private:
  void make_shard(std::uint32_t configuration, int rank, int chunks, transport::UcxNode& node,
                  WaitShard::With with) {
    const double share = kShardForward_s / chunks;
    const int layers = kLayers / chunks;
    const auto tenth = std::chrono::duration<double>(share / (2 * layers) / 10);
    other_ = std::make_unique<LateShard>(
        node, rank, configuration, std::chrono::duration_cast<LateShard::Clock::duration>(tenth));
    stage_ = std::make_unique<WaitShard>(chunks, layers, tensor::Shape{1, spec_.model.hidden_size},
                                         WaitStage::Times{share, share, share}, *other_, with);
  }

  actors::RunSpec spec_;
  stages::DataFeed feed_;
  const std::unique_ptr<tensor::Device> device_ = tensor::make_cpu_device(1);
  std::unique_ptr<LateShard> other_;
  std::unique_ptr<stages::Stage> stage_;
  std::optional<SlowChannel> slow_;
  std::optional<actors::PlanRunner> runner_;
  std::int64_t step_ = 0;
};

launch::MeasuringProcesses::Answer make_answer(int rank, transport::UcxNode& node) {
  return [rank, &node, part = std::shared_ptr<RankUnderTest>()](const json& order) mutable -> json {
    if (order == "step") return part->step();
    part.reset();
    part = std::make_shared<RankUnderTest>(order, rank, node);
    return nullptr;
  };
}

/// The measured times of one step.
class Step {
 public:
  explicit Step(const std::vector<json>& answers) {
    double begin = answers.front()["begin"], end = answers.front()["end"];
    for (const json& answer : answers) {
      begin = std::min<double>(begin, answer["begin"]);
      end = std::max<double>(end, answer["end"]);
      exposed_s_ += answer["exposed"].get<double>();
      collective_s_ += answer["collective"].get<double>();
      for (const auto& row : answer["rows"]) add(row);
    }
    for (const json& answer : answers)
      for (const auto& row : answer["rows"]) add_hop(row);
    wall_s_ = end - begin;
  }

  double wall_s() const { return wall_s_; }
  double exposed_s() const { return exposed_s_; }
  double collective_s() const { return collective_s_; }
  double hop_s() const { return hops_.empty() ? 0 : median(hops_); }
  /// Work of all ranks together.
  double work_s() const {
    double sum = 0;
    for (const auto& [action, seconds] : seconds_)
      sum += std::accumulate(seconds.begin(), seconds.end(), 0.0);
    return sum;
  }
  /// The simulated time of the step, given the mean time of each chunk's actions and the hop.
  double simulated_s(const schedules::Plan& plan) const {
    schedules::Costs costs{.hop = hop_s()};
    for (int chunk = 0; chunk < plan.num_chunks(); ++chunk)
      costs.chunks.push_back({.forward = mean(chunk, Op::F),
                              .input_gradient = mean(chunk, Op::I),
                              .weight_gradient = mean(chunk, Op::W),
                              .backward = mean(chunk, Op::B)});
    return schedules::simulate(plan, costs).value().wall;
  }

 private:
  static Op op_of(const json& row) { return static_cast<Op>(row[1].get<int>()); }

  void add(const json& row) {
    const bool forward = op_of(row) == Op::F;
    seconds_[{row[0], op_of(row)}].push_back(row[6]);
    if (op_of(row) != Op::W)
      sent_[{row[0].get<int>() + (forward ? 1 : -1), forward, row[2]}] = row[7];
  }
  /// Records how long a message took that its receiver waited for.
  void add_hop(const json& row) {
    const auto found = sent_.find({row[0], op_of(row) == Op::F, row[2]});
    const double begin = row[3], waited = row[5];
    if (op_of(row) == Op::W || found == sent_.end()) return;
    if (begin - waited < found->second && waited > 0) hops_.push_back(begin - found->second);
  }
  double mean(int chunk, Op op) const {
    const auto found = seconds_.find({chunk, op});
    if (found == seconds_.end()) return 0;
    const auto& all = found->second;
    return std::accumulate(all.begin(), all.end(), 0.0) / static_cast<double>(all.size());
  }

  double wall_s_ = 0, exposed_s_ = 0, collective_s_ = 0;
  std::vector<double> hops_;
  std::map<std::tuple<int, bool, int>, double> sent_;  // by receiving chunk, direction, microbatch
  std::map<std::pair<int, Op>, std::vector<double>> seconds_;  // by chunk
};

schedules::Plan plan_of(const actors::RunSpec& spec) {
  schedules::Plan plan = actors::make_plan(spec);
  for (auto& row : plan.actions)
    for (auto& action : row) action.overlaps_next = false;  // actions of a pair start when they can
  return plan;
}

/// The JSON line of medians over the steps.
json medians(const std::vector<Step>& steps, const schedules::Plan& plan) {
  std::map<std::string, std::vector<double>> values;
  for (const Step& step : steps) {
    const double simulated_s = step.simulated_s(plan), work_s = step.work_s() / plan.num_ranks();
    values["measured_s"].push_back(step.wall_s());
    values["simulated_s"].push_back(simulated_s);
    values["error"].push_back(std::abs(step.wall_s() / simulated_s - 1));
    values["measured_work"].push_back(step.wall_s() / work_s);
    values["simulated_work"].push_back(simulated_s / work_s);
    values["hop_s"].push_back(step.hop_s());
    values["exposed_s"].push_back(step.exposed_s());
    values["collective_s"].push_back(step.collective_s());
  }
  json out;
  for (const auto& [name, list] : values) out[name] = median(list);
  return out;
}

void run(const std::string& mode, int ranks, int microbatches, int steps,
         const std::vector<std::string>& kinds) {
  launch::MeasuringProcesses processes(ranks, make_answer);
  int configuration = 0;
  for (const std::string& kind : kinds) {
    const auto* generator = schedules::find_generator(kind);
    if (!generator) throw Error(ErrorKind::usage, "no schedule is called " + kind);
    const json order{{"mode", mode},
                     {"ranks", ranks},
                     {"microbatches", microbatches},
                     {"kind", kind},
                     {"chunks", generator->chunks},
                     {"configuration", ++configuration}};
    processes.ask(order);
    processes.ask("step");  // warms up
    std::vector<Step> measured;
    for (int i = 0; i < steps; ++i) measured.emplace_back(processes.ask("step"));
    json line = medians(measured, plan_of(spec_of(order)));
    line["kind"] = kind;
    std::cout << line.dump() << std::endl;
  }
}

}  // namespace
}  // namespace troupe::bench

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  try {
    if (words.size() < 5)
      throw troupe::Error(troupe::ErrorKind::usage,
                          "usage: schedule_bench compute|wait|slow|slow-sends|shards|experts RANKS "
                          "MICROBATCHES STEPS KIND...");
    troupe::bench::run(words[0], std::stoi(words[1]), std::stoi(words[2]), std::stoi(words[3]),
                       {words.begin() + 4, words.end()});
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "schedule_bench: {}\n", error.what());
    return 1;
  }
}
