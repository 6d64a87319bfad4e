// Measures all-reduces of float32 between processes of this host, each with a compute thread and a
// UcxNode.
//
//   collective_bench time RANKS BYTES N     seconds of an all-reduce, of N in turn
//   collective_bench hidden RANKS BYTES N   beside computation of about its length, medians of N
//
// Prints one JSON line.

#include <fmt/core.h>

#include <cmath>
#include <string>
#include <thread>
#include <vector>

#include "launch/planner/measuring/measuring_processes.h"
#include "tests/bench/timing.h"

namespace {

using namespace troupe;
using nlohmann::json;

constexpr int kWarmUp = 16;

/// One rank: its group, and the tensor that is reduced.
class Rank {
 public:
  Rank(int ranks, int rank, transport::UcxNode& node, std::int64_t bytes)
      : values_(static_cast<std::size_t>(bytes) / sizeof(float)),
        x_{values_.data(), tensor::DType::f32, {bytes / static_cast<std::int64_t>(sizeof(float))}} {
    std::vector<int> all;
    for (int i = 0; i < ranks; ++i) all.push_back(i);
    // With too few cores a polling rank keeps the one it waits for from running, so a run polls
    // only if there are enough.
    if (ranks > static_cast<int>(std::thread::hardware_concurrency()))
      node.set_spin(std::chrono::microseconds(0));
    group_ = node.make_group(1, 1, 1, "benchmark", all, rank);
  }

  json answer(const json& order) {
    const int rounds = order.at("rounds");
    if (order.at("measure") == "time") return {{"seconds", all_reduce_seconds(rounds)}};
    return hidden(rounds);
  }

 private:
  /// Of one of `rounds` all-reduces that follow each other. A median of single ones would miss the
  /// time that one of them may leave to the next.
  double all_reduce_seconds(int rounds) {
    const auto all_reduce = [this] { group_->all_reduce(*stream_, x_)->wait(); };
    for (int i = 0; i < kWarmUp; ++i) all_reduce();
    return bench::seconds_of([&] {
             for (int i = 0; i < rounds; ++i) all_reduce();
           }) /
           rounds;
  }

  /// Computes in the first-level cache, so that only the processor is shared with the collective.
  void compute(int steps) {
    for (int i = 0; i < steps; ++i)
      for (float& value : work_) value = std::sqrt(value + 1.0f);
  }
  int steps_of(double seconds) {
    constexpr int kTried = 2000;
    return static_cast<int>(kTried * seconds / bench::seconds_of([this] { compute(kTried); })) + 1;
  }

  json hidden(int rounds) {
    const double alone = all_reduce_seconds(rounds);
    const int steps = steps_of(2 * alone);
    std::vector<double> computing, both;
    for (int i = 0; i < rounds; ++i) {
      group_->barrier(*stream_)->wait();
      computing.push_back(bench::seconds_of([&] { compute(steps); }));
      group_->barrier(*stream_)->wait();
      both.push_back(bench::seconds_of([&] {
        const auto work = group_->all_reduce(*stream_, x_);
        compute(steps);
        work->wait();
      }));
    }
    return {{"alone", alone}, {"compute", bench::median(computing)}, {"both", bench::median(both)}};
  }

  std::vector<float> values_;
  tensor::Tensor x_;
  std::vector<float> work_ = std::vector<float>(1024, 1);
  std::unique_ptr<tensor::Device> device_ = tensor::make_cpu_device(1);
  std::unique_ptr<tensor::Stream> stream_ = device_->make_stream();
  std::unique_ptr<tensor::ProcessGroup> group_;
};

void measure(const std::vector<std::string>& arguments) {
  const int ranks = std::stoi(arguments.at(1));
  const std::int64_t bytes = std::stoll(arguments.at(2));
  launch::MeasuringProcesses processes(ranks, [=](int rank, transport::UcxNode& node) {
    const auto self = std::make_shared<Rank>(ranks, rank, node, bytes);
    return [self](const json& order) { return self->answer(order); };
  });
  const json order{{"measure", arguments.at(0)}, {"rounds", std::stoi(arguments.at(3))}};
  fmt::print("{}\n", processes.ask(order).front().dump());
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.size() != 4 || (arguments[0] != "time" && arguments[0] != "hidden")) {
    fmt::print(stderr, "usage: collective_bench time|hidden RANKS BYTES N\n");
    return 64;
  }
  try {
    measure(arguments);
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "collective_bench: {}\n", error.what());
    return 70;
  }
}
