#pragma once

#include <string>

#include "stages/files/safetensors/model_tensors.h"

namespace troupe::stages {

/// What tells a model's weights from others: XXH64, in hexadecimal digits, of the name, type and
/// shape of each tensor and of its first bytes, by canonical names. The files in which they lie
/// change nothing. Throws as InputFile does.
std::string base_sum(const TensorMap& weights);

}  // namespace troupe::stages
