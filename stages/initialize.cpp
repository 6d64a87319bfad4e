#include <algorithm>

#include "stages/transformer_stage.h"
#include "tensor/error.h"
#include "tensor/random.h"

namespace troupe::stages {

void initialize(Stage& stage, const ModelConfig& model, std::uint64_t seed, int threads) {
  const auto all = parameters_of(model);
  auto info = all.begin();  // both are in canonical order
  for (const Parameter& parameter : stage.parameters()) {
    info = std::ranges::find(info, all.end(), parameter.name, &ParameterInfo::name);
    TROUPE_ASSERT(info != all.end());
    tensor::Tensor weight = parameter.weight;
    if (weight.shape.rank() == 1) {
      const bool is_bias = parameter.name.ends_with(".bias");
      std::fill_n(weight.as<float>(), weight.num_elements(), is_bias ? 0.0f : 1.0f);
      continue;
    }
    const auto& [row, rows, column, columns] = parameter.region;
    weight.shape = {rows, columns};  // rows of padding stay zero
    tensor::fill_normal(weight,
                        {.columns = info->shape[1], .first_row = row, .first_column = column}, seed,
                        parameter.name, model.initializer_range, threads);
  }
  stage.weights_changed();
}

}  // namespace troupe::stages
