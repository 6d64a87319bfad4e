// Measures a GPU.
//
//   gpu_bench kernels                      prints a JSON line: [{name, bytes, seconds}], the first
//   a copy gpu_bench step 1b5|7b SEQ DETERMINISTIC  prints "ready FLOP_OF_PRODUCTS TOKENS", then
//   answers each
//                                            line with the seconds it took: "step" or "products"
//
// Ends with 77 after "skipped: no GPU" on a machine without one.

#include <unistd.h>

#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tensor/errors/error.h"
#include "tests/bench/gpu/gpu_kernels.h"
#include "tests/bench/gpu/gpu_step.h"
#include "tests/bench/timing.h"
#include "tests/gpu/presence.h"

namespace troupe::bench {
namespace {

/// A file for the algorithms that a device chooses by their speed, as a run has.
class TuningFile {
 public:
  TuningFile() = default;
  TuningFile(const TuningFile&) = delete;
  ~TuningFile() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  std::string path() const { return path_.string(); }

 private:
  const std::filesystem::path path_ = std::filesystem::temp_directory_path() /
                                      ("troupe-products-" + std::to_string(getpid()) + ".txt");
};

void print_kernels() {
  const auto device = tensor::make_device({.kind = tensor::DeviceKind::cuda});
  nlohmann::json rows = nlohmann::json::array();
  for (const KernelTime& time : measure_kernels(*device))
    rows.push_back({{"name", time.name}, {"bytes", time.bytes}, {"seconds", time.seconds}});
  std::cout << rows.dump() << std::endl;
}

void serve(const GpuWorkload& workload, bool deterministic) {
  const TuningFile tuning;
  const auto device = tensor::make_device({.kind = tensor::DeviceKind::cuda,
                                           .deterministic = deterministic,
                                           .tuning = deterministic ? "" : tuning.path()});
  GpuStep step(workload, *device);
  GpuProducts products(workload, *device);
  for (int i = 0; i < 10; ++i) step.run();
  products.run();
  std::cout << "ready " << products.flop() << ' ' << workload.tokens() << std::endl;
  for (std::string order; std::getline(std::cin, order);) {
    if (order == "step")
      std::cout << seconds_of([&] { step.run(); }) << std::endl;
    else if (order == "products")
      std::cout << seconds_of([&] { products.run(); }) << std::endl;
    else
      throw Error(ErrorKind::usage, "'" + order + "' is no order: step or products");
  }
}

void run(const std::vector<std::string>& arguments) {
  if (arguments == std::vector<std::string>{"kernels"}) return print_kernels();
  if (arguments.size() != 4 || arguments[0] != "step")
    throw Error(ErrorKind::usage, "usage: gpu_bench kernels | step 1b5|7b SEQ true|false");
  serve(gpu_workload(arguments[1], std::stoll(arguments[2])), arguments[3] == "true");
}

}  // namespace
}  // namespace troupe::bench

int main(int argc, char** argv) {
  try {
    if (troupe::test::has_no_gpu(troupe::tensor::report_cuda_devices())) {
      std::cout << "skipped: no GPU" << std::endl;
      return troupe::test::kSkipped;
    }
    troupe::bench::run({argv + 1, argv + argc});
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "gpu_bench: " << error.what() << '\n';
    return 1;
  }
}
