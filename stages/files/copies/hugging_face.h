#pragma once

#include <filesystem>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "stages/files/safetensors/weight_dtype.h"
#include "stages/storage/progress.h"

// Models between Hugging Face directories and checkpoints. Either may be given where the other is
// expected: what is read is a checkpoint as CheckpointReader opens it.

namespace troupe::stages {

/// What was copied, and what was not, for a message.
struct ModelCopy {
  std::vector<std::string> files;          ///< kept beside weights and config.json
  std::vector<std::string> unused_fields;  ///< of config.json: kept, but without effect in Troupe
  std::vector<std::string> left_out;       ///< tensors that the model does not need
  /// How its tokenizer is read, where versions of transformers differ, or why it is not; else
  /// empty.
  std::string tokenizer;
};

/// Makes the checkpoint `to` of step 0 from a model's directory. It has the model's weights bit for
/// bit, config.json and the other files (read_source), and no state of an optimizer. Throws
/// Error{data} naming what the directory lacks or Troupe does not support, or that `to` exists, and
/// Error{internal} with the system's reason, and Error{retry} soon after it was asked to stop; then
/// nothing is left.
ModelCopy import_model(const std::filesystem::path& from, const std::filesystem::path& to,
                       const std::stop_token& stop = {}, const Progress& progress = {});

/// Makes the Hugging Face directory `to` from a checkpoint, with weights of this dtype or, without
/// one, as they are stored. One file stays one. Throws as import_model does.
ModelCopy export_model(const std::filesystem::path& from, const std::filesystem::path& to,
                       std::optional<WeightDType> dtype, const std::stop_token& stop = {},
                       const Progress& progress = {});

}  // namespace troupe::stages
