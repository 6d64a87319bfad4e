#include <algorithm>
#include <cmath>

#include "stages/transformer_stage.h"
#include "tensor/error.h"
#include "tensor/host_copies.h"
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

/// The elements of a matrix that the shard holds, without rows of padding, which stay zero.
tensor::Tensor held_part(const Parameter& parameter) {
  tensor::Tensor weight = parameter.weight;
  weight.shape = {parameter.region.rows, parameter.region.columns};
  return weight;
}

/// Draws what held_part() is to be, in host memory.
void draw(const tensor::Tensor& weight, const Parameter& parameter, const ParameterInfo& info,
          const ModelConfig& model, std::uint64_t seed, int threads) {
  const auto& [row, rows, column, columns] = parameter.region;
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
  tensor::HostCopies copies(stage.stream_of(Pass::forward).device());
  for (const Parameter& parameter : stage.parameters()) {
    info = std::ranges::find(info, all.end(), parameter.name, &ParameterInfo::name);
    TROUPE_ASSERT(info != all.end());
    if (parameter.weight.shape.rank() == 1) {
      const bool is_bias = parameter.name.ends_with(".bias");
      copies.fill(parameter.weight, [&](const tensor::Tensor& host) {
        std::fill_n(host.as<float>(), host.num_elements(), is_bias ? 0.0f : 1.0f);
      });
    } else {
      copies.fill(held_part(parameter), [&](const tensor::Tensor& host) {
        draw(host, parameter, *info, model, seed, threads);
      });
    }
  }
  copies.synchronize();
  stage.weights_changed();
}

}  // namespace troupe::stages
