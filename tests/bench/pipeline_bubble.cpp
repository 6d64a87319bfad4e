// Computes the bubble that the step's schedule must have with the measured costs of each stage.
//
//   pipeline_bubble STAGES MICROBATCHES REPEATS
//
// Cuts the float32 model evenly, measures each stage's forward and backward of one microbatch alone
// with one thread (medians), simulates 1F1B with them, and prints one JSON line {"bubble",
// "forward_s", "backward_s"}.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "schedules/analysis/simulate.h"
#include "schedules/generators/generators.h"
#include "tensor/device/device.h"
#include "tensor/errors/error.h"
#include "tests/bench/timing.h"
#include "tests/bench/workload.h"
#include "tests/support/stage_passes.h"

namespace troupe::bench {
namespace {

struct Cost {
  double forward_s = 0;
  double backward_s = 0;
};

Cost measure(const Workload& workload, const stages::ChunkSpec& chunk, int repeats) {
  const auto device = tensor::make_cpu_device(1);
  const auto stage = stages::make_transformer_stage(stage_spec(workload, chunk), *device);
  stages::initialize(*stage, workload.model, 1, 1);
  const auto ids = spread_tokens(workload);
  const auto bytes = static_cast<std::size_t>(stage->edge_shape().num_elements()) *
                     tensor::size_of(stage->edge_dtype());
  std::vector<tensor::Buffer> buffers;
  const auto edge = [&](bool wanted) {
    if (!wanted) return tensor::Tensor{};
    buffers.push_back(device->allocate(bytes, tensor::MemoryKind::host));
    return buffers.back().view(stage->edge_dtype(), stage->edge_shape());
  };
  const auto input = edge(!chunk.embedding), input_gradient = edge(!chunk.embedding);
  const auto output = edge(!chunk.head), output_gradient = edge(!chunk.head);
  const auto loss = device->allocate(sizeof(double), tensor::MemoryKind::pinned);
  stages::ForwardCall call{.input = input, .output = output, .ids = ids, .targets = ids};
  if (chunk.head) call.loss = loss.view(tensor::DType::f64, {1});
  std::vector<double> forward, backward;
  stage->begin_step();
  for (int i = 0; i <= repeats; ++i) {
    const double forward_s = seconds_of([&] { run_forward(*stage, call); });
    const double backward_s = seconds_of([&] {
      run_backward(*stage, {.output_gradient = output_gradient, .input_gradient = input_gradient});
    });
    if (i == 0) continue;  // the first round warms up caches and threads
    forward.push_back(forward_s);
    backward.push_back(backward_s);
  }
  return {median(forward), median(backward)};
}

void run(int stages, int microbatches, int repeats) {
  const Workload workload = measured_workload("float32");
  const int layers = static_cast<int>(workload.model.num_hidden_layers);
  std::vector<schedules::StageCosts> costs;
  std::vector<double> forward_s, backward_s;
  for (int stage = 0; stage < stages; ++stage) {
    const Cost cost = measure(workload,
                              {.first_layer = layers * stage / stages,
                               .end_layer = layers * (stage + 1) / stages,
                               .embedding = stage == 0,
                               .head = stage == stages - 1},
                              repeats);
    costs.push_back({.forward = cost.forward_s,
                     .input_gradient = cost.backward_s / 2,
                     .weight_gradient = cost.backward_s / 2});
    forward_s.push_back(cost.forward_s);
    backward_s.push_back(cost.backward_s);
  }
  const auto plan = schedules::find_generator("1f1b")->generate(
      {.stages = stages, .chunks = 1, .microbatches = microbatches});
  const auto simulation = schedules::simulate(plan, {.stages = costs});
  TROUPE_ASSERT(simulation.has_value());
  std::cout << fmt::format(R"({{"bubble": {}, "forward_s": [{}], "backward_s": [{}]}})",
                           simulation->bubble_rate, fmt::join(forward_s, ", "),
                           fmt::join(backward_s, ", "))
            << std::endl;
}

}  // namespace
}  // namespace troupe::bench

int main(int argc, char** argv) {
  try {
    if (argc != 4) {
      throw troupe::Error(troupe::ErrorKind::usage,
                          "usage: pipeline_bubble STAGES MICROBATCHES REPEATS");
    }
    troupe::bench::run(std::stoi(argv[1]), std::stoi(argv[2]), std::stoi(argv[3]));
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "pipeline_bubble: " << error.what() << '\n';
    return 1;
  }
}
