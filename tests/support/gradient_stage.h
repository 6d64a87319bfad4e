#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tensor/random.h"
#include "tests/support/null_stage.h"

namespace troupe::test {

/// A stage that only has gradients, and memory for weights: of parameters w0, w1, ... with these
/// numbers of elements, each on a boundary of 64 elements, and a node of a backward for each.
class GradientStage : public NullStage {
 public:
  explicit GradientStage(const std::vector<std::int64_t>& sizes) : NullStage(1, {}) {
    std::int64_t total = 0;
    for (const std::int64_t size : sizes) total += (size + 63) / 64 * 64;
    memory_ = device().allocate(static_cast<std::size_t>(total) * sizeof(float),
                                tensor::MemoryKind::device);
    std::int64_t offset = 0;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      numbers_.push_back(static_cast<int>(i));
      parameters_.push_back(
          {.name = "w" + std::to_string(i),
           .gradient = memory_.view(tensor::DType::f32, {sizes[i]},
                                    static_cast<std::size_t>(offset) * sizeof(float))});
      offset += (sizes[i] + 63) / 64 * 64;
    }
    for (const int& number : numbers_) ends_.push_back({.gradients = {&number, 1}});
    gradients_ = memory_.view(tensor::DType::f32, {total});
    weight_memory_ = device().allocate(gradients_.num_bytes(), tensor::MemoryKind::device);
  }

  std::span<const stages::Parameter> parameters() const override { return parameters_; }
  tensor::Tensor gradients() const override { return gradients_; }
  tensor::Tensor weights() const override {
    return weight_memory_.view(gradients_.dtype, gradients_.shape);
  }
  std::span<const stages::NodeEnd> nodes(int, stages::Pass) const override { return ends_; }

  /// Lets the first parameter be a tied matrix whose other use another stage has.
  void tie() { tied_ = parameters_.front().gradient; }
  tensor::Tensor tied_gradient() const override { return tied_; }

  /// Element i of a parameter's gradient as a replica computes it.
  static float element(int replica, int step, int parameter, std::int64_t i) {
    const tensor::Random random(static_cast<std::uint64_t>(replica),
                                std::to_string(step) + "/" + std::to_string(parameter));
    return static_cast<float>(random.normal(static_cast<std::uint64_t>(i)));
  }
  /// Writes a parameter's gradient as a node would.
  void compute(int replica, int step, int parameter) {
    const tensor::Tensor x = opened(parameters_[static_cast<std::size_t>(parameter)].gradient);
    for (std::int64_t i = 0; i < x.num_elements(); ++i)
      x.as<float>()[i] = element(replica, step, parameter, i);
  }
  std::vector<float> gradient(int parameter) const {
    const tensor::Tensor x = opened(parameters_[static_cast<std::size_t>(parameter)].gradient);
    return {x.as<float>(), x.as<float>() + x.num_elements()};
  }

 private:
  tensor::Buffer memory_, weight_memory_;
  tensor::Tensor gradients_, tied_;
  std::vector<int> numbers_;
  std::vector<stages::Parameter> parameters_;
  std::vector<stages::NodeEnd> ends_;
};

}  // namespace troupe::test
