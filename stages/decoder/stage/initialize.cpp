#include <algorithm>
#include <cmath>
#include <vector>

#include "stages/decoder/stage/transformer_stage.h"
#include "tensor/cpu/ops/random_fills.h"
#include "tensor/device/host_copies.h"
#include "tensor/errors/error.h"

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

/// Draws a part of a matrix, in host memory.
void draw(const tensor::Tensor& weight, const tensor::Region& region, const ParameterInfo& info,
          const ModelConfig& model, std::uint64_t seed, int threads) {
  const auto& [row, rows, column, columns] = region;
  const tensor::MatrixSlice slice = {
      .columns = info.shape[1], .first_row = row, .first_column = column};
  if (is_adapter(info)) {
    const bool is_a = info.field == Field::lora_a || info.field == Field::out_lora_a;
    if (!is_a) return void(std::fill_n(weight.as<float>(), weight.num_elements(), 0.0f));
    // As torch's Linear begins, with sqrt(5) as the slope of its kaiming_uniform_.
    const double bound = 1 / std::sqrt(static_cast<double>(info.shape[1]));
    return tensor::fill_uniform(weight, slice, seed, info.name, bound, threads);
  }
  if (model.initializer == Initializer::xavier_uniform)
    tensor::fill_uniform(weight, slice, seed, info.name,
                         tensor::xavier_bound(info.shape[1], info.shape[0]), threads);
  else
    tensor::fill_normal(weight, slice, seed, info.name, deviation(info, model), threads);
}

/// A part of a parameter that the stage keeps, and its memory.
struct KeptPart {
  tensor::Tensor weight;
  tensor::Region region;
};
std::vector<KeptPart> parts_of(const Parameter& parameter, bool is_divided) {
  if (!is_divided) return {{parameter.weight, parameter.region}};
  std::vector<KeptPart> parts{{parameter.kept_weight, parameter.region_of(parameter.slice)}};
  if (parameter.twin_slice >= 0)
    parts.push_back({parameter.twin_weight, parameter.region_of(parameter.twin_slice)});
  return parts;
}

}  // namespace

void initialize(Stage& stage, const ModelConfig& model, std::uint64_t seed, int threads) {
  const auto all = parameters_of(model);
  const float of_norms = traits_of(model.kind).norm_form == NormForm::one_plus ? 0 : 1;
  auto info = all.begin();  // both are in canonical order
  tensor::HostCopies copies(stage.stream_of(Pass::forward).device());
  for (const Parameter& parameter : stage.parameters()) {
    info = std::ranges::find(info, all.end(), parameter.name, &ParameterInfo::name);
    TROUPE_ASSERT(info != all.end());
    if (model.adapter && !is_adapter(*info)) continue;
    for (const auto& [weight, region] : parts_of(parameter, !stage.weights())) {
      if (region.num_elements() == 0) continue;
      if (info->shape.rank() == 1) {
        const bool is_bias = parameter.name.ends_with(".bias");
        copies.fill(weight, [&](const tensor::Tensor& host) {
          std::fill_n(host.as<float>(), host.num_elements(), is_bias ? 0.0f : of_norms);
        });
      } else {
        // Rows of padding, which the weight may have after its own, stay zero.
        const tensor::Tensor held{weight.data, weight.dtype, {region.rows, region.columns}};
        copies.fill_rows(held, [&](const tensor::Tensor& host, std::int64_t first_row) {
          tensor::Region part = region;
          part.row += first_row;
          draw(host, part, *info, model, seed, threads);
        });
      }
    }
  }
  copies.synchronize();
  stage.weights_changed();
}

}  // namespace troupe::stages
