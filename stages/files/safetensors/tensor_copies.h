#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <stop_token>
#include <string>

#include "stages/files/safetensors/model_tensors.h"
#include "stages/files/safetensors/safetensors_layout.h"
#include "stages/files/safetensors/weight_dtype.h"

// Tensors of files copied into new files, region by region: those that have a checksum each, which
// is compared, or of 16 MiB. The copies have one each.

namespace troupe::stages {

/// What is done with the elements of a region of a tensor between reading and writing them.
using TensorChange = std::function<void(const tensor::Region& region, std::span<float> elements)>;

/// What copies are made of.
struct CopiedAs {
  std::optional<WeightDType> dtype{};  ///< none: as they are stored
  /// What is done with a tensor; an empty function: nothing.
  std::function<TensorChange(const std::string& tensor)> change{};
};

/// The layout of a file with copies of these tensors.
SafetensorsLayout copied_layout(const TensorMap& tensors, const CopiedAs& as);

/// Makes the file with copies of these tensors, whose layout it is, and syncs it. Throws
/// Error{data} for an element that is not finite, or not in the copy, as Error{internal} with the
/// system's reason, and Error{retry} soon after it was asked to stop.
SafetensorsFile copy_tensors(const TensorMap& tensors, const SafetensorsLayout& layout,
                             const std::filesystem::path& path, const CopiedAs& as,
                             const std::stop_token& stop, ProgressSum& written);

}  // namespace troupe::stages
