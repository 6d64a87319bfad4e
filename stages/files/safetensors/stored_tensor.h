#pragma once

#include <string>
#include <vector>

#include "stages/files/safetensors/region_bytes.h"
#include "stages/model/model_config.h"
#include "tensor/values/region.h"

// Where the parameters of a model lie in the tensors of its files (StoredAs).

namespace troupe::stages {

/// A tensor of the model's files.
struct StoredTensor {
  std::string name;
  tensor::Shape shape;
  bool frozen = false;  ///< UpdateRule::frozen, alike for all parameters in it
};

/// The tensor that holds the parameter, with or without others.
StoredTensor stored_tensor(const ParameterInfo& info);
/// Every tensor of the model, once.
std::vector<StoredTensor> stored_tensors(const ModelConfig& model);

/// The tensors that a checkpoint of the model holds: all, or only the adapter's if it has one.
std::vector<StoredTensor> saved_tensors(const ModelConfig& model);

/// A region of the parameter in the coordinates of its tensor, which has it in one piece or in
/// several, in the order of the parameter's rows; and the order in which memory that holds the
/// parameter's region row by row holds the tensor's.
std::vector<tensor::Region> stored_regions(const ParameterInfo& info, const tensor::Region& region);
Order stored_order(const ParameterInfo& info);

}  // namespace troupe::stages
