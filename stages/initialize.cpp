#include <algorithm>

#include "stages/transformer_stage.h"
#include "tensor/random.h"

namespace troupe::stages {

void initialize(Stage& stage, const ModelConfig& model, std::uint64_t seed, int threads) {
  for (const Parameter& parameter : stage.parameters()) {
    const tensor::Tensor& weight = parameter.weight;
    if (weight.shape.rank() == 1) {
      std::fill_n(weight.as<float>(), weight.num_elements(), 1.0f);
    } else {
      tensor::fill_normal(weight, seed, parameter.name, model.initializer_range, threads);
    }
  }
  stage.weights_changed();
}

}  // namespace troupe::stages
