#pragma once

#include <list>

#include "stages/files/safetensors/model_tensors.h"
#include "stages/model/model_config.h"

namespace troupe::stages {

/// The tensors of a directory with a matrix for each expert, as transformers saves them, in the
/// place of one tensor for all of a layer, as transformers 5 computes with: experts.gate_up_proj
/// [E, 2m, h] and experts.down_proj [E, h, m]. Mixtral's module is mlp there, block_sparse_moe in
/// files. The entries of the parts go to `parts`, which must outlive the map. Throws Error{data}
/// naming a fused tensor of another shape.
TensorMap split_experts(TensorMap found, const ModelConfig& model, std::list<TensorEntry>& parts);

}  // namespace troupe::stages
