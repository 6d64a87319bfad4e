#pragma once

#include <map>
#include <span>
#include <string>

#include "stages/files/safetensors/safetensors.h"
#include "stages/model/model_config.h"

namespace troupe::stages {

/// Where a tensor of a checkpoint lies. File and entry outlive the map that holds this place.
struct TensorPlace {
  const SafetensorsFile* file = nullptr;
  const TensorEntry* entry = nullptr;
};
using TensorMap = std::map<std::string, TensorPlace, std::less<>>;

/// Maps the tensors of all files by name. Throws Error{data} for a name that two files hold.
TensorMap map_tensors(std::span<const SafetensorsFile> files);

/// Throw Error{data} unless the map holds exactly the model's saved_tensors(), or exactly their
/// optimizer state (none of frozen ones), of a WeightDType and in their shapes, and a checksum for
/// every region of them; the message names the tensor and, if one was not written, the region.
void check_weights(const TensorMap& tensors, const ModelConfig& model);
void check_optimizer(const TensorMap& tensors, const ModelConfig& model);

/// Throws Error{data} naming a tensor without a checksum, or the region of one that was not
/// written.
void check_sums(const TensorMap& tensors);

/// Finds the tensor with this name, which must be of a WeightDType and have this shape. Throws
/// Error{data} naming it.
const TensorPlace& find_tensor(const TensorMap& tensors, const std::string& name,
                               const tensor::Shape& shape);

}  // namespace troupe::stages
