#pragma once

#include <filesystem>
#include <string>

#include "stages/model_config.h"

namespace troupe::stages {

/// The text of a Hugging Face config.json (LlamaForCausalLM with the rope keys of transformers 4,
/// or GPT2LMHeadModel; weights in float32).
std::string to_hf_config(const ModelConfig& model);

/// Reads what to_hf_config wrote and checks it (check_model); the compute dtype stays at its
/// default. Throws Error{data} naming file and field.
ModelConfig read_hf_config(const std::filesystem::path& path);

}  // namespace troupe::stages
