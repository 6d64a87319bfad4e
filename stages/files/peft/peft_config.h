#pragma once

#include <filesystem>
#include <string>

#include "stages/files/safetensors/file_names.h"
#include "stages/model/model_config.h"

// Directories of the PEFT library with a low-rank adapter: adapter_config.json and
// adapter_model.safetensors, whose tensors have the names of ParameterInfo::stored.

namespace troupe::stages {

/// Whether a directory says that it holds an adapter.
bool holds_adapter(const std::filesystem::path& dir);

/// The directory of the model that the adapter is for: base_model_name_or_path, from the adapter's
/// directory or from the current one if it is relative. Throws Error{data} naming the file if it is
/// no directory on this machine.
std::filesystem::path base_of_adapter(const std::filesystem::path& dir);

/// Reads adapter_config.json of an adapter for this model, which is without one. Throws Error{data}
/// naming file and field for what PEFT would compute otherwise than Adapter says: another
/// peft_type, DoRA, biases, modules_to_save, ranks or layers of their own, targets which only some
/// layers have, initial values that change the model's weights.
Adapter read_peft_config(const std::filesystem::path& dir, const ModelConfig& model);

/// The text of an adapter_config.json for the model's adapter.
std::string to_peft_config(const ModelConfig& model);

}  // namespace troupe::stages
