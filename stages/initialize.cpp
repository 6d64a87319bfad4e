#include <algorithm>
#include <cmath>

#include "stages/transformer_stage.h"
#include "tensor/error.h"
#include "tensor/random.h"

namespace troupe::stages {
namespace {

/// The standard deviation of a matrix that is drawn from a normal distribution.
double deviation(const ParameterInfo& info, const ModelConfig& model) {
  // Shards divide the inputs of a layer's output projections, and of no other matrix.
  const bool adds_to_residual = info.split == Split::columns;
  if (model.initializer != Initializer::scaled_normal || !adds_to_residual)
    return model.initializer_range;
  return model.initializer_range / std::sqrt(2 * static_cast<double>(model.num_hidden_layers));
}

void draw(const Parameter& parameter, const ParameterInfo& info, const ModelConfig& model,
          std::uint64_t seed, int threads) {
  const auto& [row, rows, column, columns] = parameter.region;
  tensor::Tensor weight = parameter.weight;
  weight.shape = {rows, columns};  // rows of padding stay zero
  const tensor::MatrixSlice slice = {
      .columns = info.shape[1], .first_row = row, .first_column = column};
  if (model.initializer == Initializer::xavier_uniform)
    tensor::fill_uniform(weight, slice, seed, parameter.name,
                         tensor::xavier_bound(info.shape[1], info.shape[0]), threads);
  else
    tensor::fill_normal(weight, slice, seed, parameter.name, deviation(info, model), threads);
}

}  // namespace

void initialize(Stage& stage, const ModelConfig& model, std::uint64_t seed, int threads) {
  const auto all = parameters_of(model);
  auto info = all.begin();  // both are in canonical order
  for (const Parameter& parameter : stage.parameters()) {
    info = std::ranges::find(info, all.end(), parameter.name, &ParameterInfo::name);
    TROUPE_ASSERT(info != all.end());
    if (parameter.weight.shape.rank() == 1) {
      const bool is_bias = parameter.name.ends_with(".bias");
      std::fill_n(parameter.weight.as<float>(), parameter.weight.num_elements(),
                  is_bias ? 0.0f : 1.0f);
    } else {
      draw(parameter, *info, model, seed, threads);
    }
  }
  stage.weights_changed();
}

}  // namespace troupe::stages
