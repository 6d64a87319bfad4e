// Measures one rank's whole training step, and its matrix products by oneDNN alone, in one process.
//
//   step_bench float32|bfloat16 THREADS [SAMPLES of a step [KIND of model]]
//
// Prints "ready GFLOP". Then every line on standard input is an order, answered with the seconds it
// took: "step" runs a training step, "products" its matrix products without anything between them,
// "weights" draws the initial weights.

#include <omp.h>

#include <cmath>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "stages/decoder/stage/optimizer.h"
#include "tensor/device/device.h"
#include "tensor/errors/error.h"
#include "tests/bench/microbatch_products.h"
#include "tests/bench/timing.h"
#include "tests/bench/workload.h"
#include "tests/support/adapters.h"
#include "tests/support/stage_passes.h"

namespace troupe::bench {
namespace {

/// Everything that a single rank does between two lines of metrics.
class TrainingStep {
 public:
  TrainingStep(const Workload& workload, int threads)
      : num_microbatches_(workload.num_microbatches()),
        device_(tensor::make_cpu_device(threads)),
        stage_(stages::make_transformer_stage(stage_spec(workload, whole(workload)), *device_)),
        ids_(spread_tokens(workload)),
        loss_(device_->allocate(sizeof(double), tensor::MemoryKind::pinned)),
        squared_norms_(stage_->parameters().size()) {
    draw_weights(workload, threads);
    if (workload.model.adapter)
      test::draw_base(*stage_, stage_spec(workload, whole(workload)), *device_, 1);
  }

  void draw_weights(const Workload& workload, int threads) {
    stages::initialize(*stage_, workload.model, 1, threads);
  }
  void run() {
    stage_->begin_step();
    for (int microbatch = 0; microbatch < num_microbatches_; ++microbatch) {
      run_forward(*stage_,
                  {.ids = ids_, .targets = ids_, .loss = loss_.view(tensor::DType::f64, {1})});
      run_backward(*stage_, {});
    }
    end_backward(*stage_);
    stage_->squared_norms(squared_norms_);
    double sum = 0;
    for (const double squared_norm : squared_norms_) sum += squared_norm;
    const double clip = stages::clip_factor(optimizer_, std::sqrt(sum));
    stage_->apply(stages::adamw_step(optimizer_, ++step_, clip));
  }

 private:
  static stages::ChunkSpec whole(const Workload& workload) {
    return {.first_layer = 0,
            .end_layer = static_cast<int>(workload.model.num_hidden_layers),
            .embedding = true,
            .head = true};
  }

  const stages::OptimizerConfig optimizer_{.max_steps = 1'000'000};
  const int num_microbatches_;
  std::int64_t step_ = 0;
  std::unique_ptr<tensor::Device> device_;
  std::unique_ptr<stages::Stage> stage_;
  std::vector<std::int32_t> ids_;
  tensor::Buffer loss_;
  std::vector<double> squared_norms_;
};

void serve(const Workload& workload, int threads) {
  omp_set_num_threads(threads);
  TrainingStep step(workload, threads);
  ProductList products = microbatch_products(workload);
  const auto run_products = [&] {
    for (int i = 0; i < workload.num_microbatches(); ++i) products.run();
  };
  step.run();
  run_products();
  std::cout << "ready " << products.gflop() * workload.num_microbatches() << std::endl;
  for (std::string order; std::getline(std::cin, order);) {
    if (order == "step")
      std::cout << seconds_of([&] { step.run(); }) << std::endl;
    else if (order == "products")
      std::cout << seconds_of(run_products) << std::endl;
    else if (order == "weights")
      std::cout << seconds_of([&] { step.draw_weights(workload, threads); }) << std::endl;
    else
      throw Error(ErrorKind::usage, "'" + order + "' is no order: step, products or weights");
  }
}

}  // namespace
}  // namespace troupe::bench

int main(int argc, char** argv) {
  try {
    if (argc < 3 || argc > 5)
      throw troupe::Error(troupe::ErrorKind::usage,
                          "usage: step_bench DTYPE THREADS [SAMPLES [KIND]]");
    troupe::bench::Workload workload = troupe::bench::measured_workload(argv[1]);
    if (argc > 3) workload.global = std::stoi(argv[3]);
    if (argc > 4) workload = troupe::bench::of_kind(workload, argv[4]);
    troupe::bench::serve(workload, std::stoi(argv[2]));
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "step_bench: " << error.what() << '\n';
    return 1;
  }
}
