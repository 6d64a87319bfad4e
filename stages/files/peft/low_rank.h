#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "stages/files/safetensors/model_tensors.h"
#include "stages/files/safetensors/region_bytes.h"
#include "tensor/values/region.h"

namespace troupe::stages {

/// What an adapter adds to a weight: scale * B A, from files.
struct LowRank {
  TensorPlace a;  ///< [rank, in]
  TensorPlace b;  ///< [out, rank]
  double scale = 1;
};

/// The matrices for a tensor of the model, as "model.layers.0.self_attn.q_proj.weight", among the
/// tensors of an adapter; none if it is no target.
std::optional<LowRank> find_low_rank(const TensorMap& tensors, const std::string& weight,
                                     double scale);

/// Adds a region of scale * B A, of [out, in], to `out`, which holds it in this order. All in
/// float32: each sum of products in ascending order, then the scale, then one addition. Throws as
/// SafetensorsFile::read_floats() does.
void add_low_rank(const LowRank& matrices, const tensor::Region& region, Order order,
                  std::span<float> out);

}  // namespace troupe::stages
