#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>

#include "stages/files/checkpoint/checkpoint_content.h"
#include "stages/files/safetensors/weight_dtype.h"
#include "stages/storage/progress.h"

namespace troupe::stages {

/// The name of file `part` of `num_parts`, counted from 0.
using FileName = std::function<std::string(int part, int num_parts)>;

/// Who may stop a copy, and who is told of the bytes that it has written.
struct CopyWatch {
  const std::stop_token& stop;
  const Progress& progress;
};

/// Copies the weights of a model into new files of the directory, as many as they lie in, of this
/// dtype or as they are stored. Each tensor is copied in regions of 16 MiB, or those that have a
/// checksum each, which is compared; the copies have one each. Returns the files. Throws
/// Error{retry} soon after it was asked to stop.
std::vector<SafetensorsFile> copy_weights(const CheckpointContent& content,
                                          const std::filesystem::path& dir, const FileName& name,
                                          std::optional<WeightDType> dtype, const CopyWatch& watch);

}  // namespace troupe::stages
