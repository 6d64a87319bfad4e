#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "actors/topology/assembly.h"
#include "actors/worker/step/plan_runner.h"
#include "stages/corpus/token_data.h"
#include "stages/decoder/stage/transformer_stage.h"

namespace troupe::test {

/// Tokens that follow from a formula.
class CountingTokens : public stages::TokenFile {
 public:
  explicit CountingTokens(std::int64_t vocab) : vocab_(vocab) {}
  const std::string& name() const override { return path_; }
  std::int64_t num_tokens() const override { return 4000; }
  /// A hundred documents, each longer than the one before.
  std::int64_t num_documents() const override { return 100; }
  std::int64_t document_begin(std::int64_t i) const override {
    return num_tokens() * i * i / (100 * 100);
  }
  void read(std::int64_t begin, std::span<std::int32_t> out) const override {
    for (std::size_t i = 0; i < out.size(); ++i) {
      const auto n = begin + static_cast<std::int64_t>(i);
      out[i] = static_cast<std::int32_t>((n * n / 7 + n) % vocab_);
    }
  }

 private:
  std::string path_ = "numbers that a test made";
  std::int64_t vocab_;
};

inline stages::DataFeed counting_feed(const actors::RunSpec& spec) {
  return {std::make_unique<CountingTokens>(spec.model.vocab_size),
          {.documents = spec.batch.documents,
           .seq_len = spec.batch.seq_len,
           .micro = spec.batch.micro,
           .global = spec.batch.global,
           .replicas = spec.mesh.dp,
           .vocab_size = spec.model.vocab_size}};
}

/// Calls body(rank) on one thread per rank and waits for all of them. Rethrows the first exception.
inline void on_ranks(int ranks, const std::function<void(int)>& body) {
  std::exception_ptr first;
  std::mutex mutex;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      try {
        body(rank);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!first) first = std::current_exception();
      }
    });
  for (auto& thread : threads) thread.join();
  if (first) std::rethrow_exception(first);
}

/// A run whose ranks are threads: its plan, and data that counts. What it makes must not outlive
/// it. All functions may be called by any thread.
class ThreadCluster {
 public:
  static constexpr std::uint64_t kRun = 1, kConfiguration = 1;

  explicit ThreadCluster(const actors::RunSpec& spec)
      : spec_(spec),
        shape_(first_shape(spec)),
        assembly_(assemble(spec, shape_)),
        feed_(counting_feed(spec)) {}

  actors::RankAssembly part(int rank) const { return part_of(assembly_, spec_, shape_, rank); }
  /// The rank's stage with its initial weights. One is made at a time, because ThreadSanitizer
  /// cannot see how oneDNN guards its shared kernels.
  std::unique_ptr<stages::Stage> make_stage(int rank, tensor::Device& device) const {
    const std::lock_guard lock(mutex_);
    auto stage = stages::make_transformer_stage(part(rank).stage, device);
    stages::initialize(*stage, spec_.model, spec_.seed, 1);
    return stage;
  }
  /// Opens the channel for the rank's edges, whose messages `device`, which outlives the channel,
  /// computes with.
  void open(transport::Channel& channel, int rank, tensor::Device* device = nullptr,
            transport::EdgeChoice choice = transport::EdgeChoice::automatic) const {
    channel.open({.run = kRun,
                  .configuration = kConfiguration,
                  .rank = rank,
                  .edges = part(rank).edges,
                  .device = device,
                  .choice = choice});
  }
  /// The interpreter of the rank's plan. Stage, channel and device outlive it.
  actors::PlanRunner runner(int rank, stages::Stage& stage, transport::Channel& channel,
                            tensor::Device& device,
                            stages::DataParallel* data_parallel = nullptr) const {
    const actors::RankAssembly own = part(rank);
    return runner_of(own, compile_training(own), stage, channel, device, data_parallel);
  }
  /// The interpreter of the rank's evaluations.
  actors::PlanRunner evaluator(int rank, stages::Stage& stage, transport::Channel& channel,
                               tensor::Device& device, stages::DataParallel& data_parallel) const {
    const actors::RankAssembly own = part(rank);
    return runner_of(own, compile(own, own.eval_actions), stage, channel, device, &data_parallel);
  }

 private:
  actors::PlanRunner runner_of(const actors::RankAssembly& own, actors::Program program,
                               stages::Stage& stage, transport::Channel& channel,
                               tensor::Device& device, stages::DataParallel* data_parallel) const {
    return {stage,
            channel,
            device,
            std::move(program),
            {.feed = &feed_,
             .documents = spec_.batch.documents,
             .replica = own.place.replica,
             .rows = stages::row_sizes(spec_.batch.documents,
                                       spec_.batch.micro * spec_.batch.seq_len, spec_.mesh.tp),
             .samples = spec_.batch.micro,
             .num_microbatches = assembly_.plan.num_microbatches},
            data_parallel};
  }

  const actors::RunSpec spec_;
  const actors::ClusterShape shape_;
  const actors::Assembly assembly_;
  const stages::DataFeed feed_;
  mutable std::mutex mutex_;
};

}  // namespace troupe::test
