#pragma once

#include <filesystem>
#include <vector>

#include "stages/files/safetensors/model_tensors.h"
#include "stages/files/safetensors/safetensors.h"

namespace troupe::stages {

/// The file that holds all weights, unless an index (kWeightsIndexFile) names several.
inline constexpr const char* kWeightsFile = "model.safetensors";

/// Opens the weights of a Hugging Face directory: model.safetensors, or else the files that
/// model.safetensors.index.json names, which must agree with what they hold. Throws Error{data}
/// naming the file, and the tensor that lies elsewhere than the index says.
std::vector<SafetensorsFile> open_weight_files(const std::filesystem::path& dir);

/// Writes the index of the files in which these tensors lie: metadata.total_size in bytes, and
/// weight_map from tensor to file.
void write_index(const std::filesystem::path& path, const TensorMap& tensors);

}  // namespace troupe::stages
