#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "stages/model/model_config.h"

namespace troupe::stages {

/// What a config.json says.
struct HfConfig {
  ModelConfig model;  ///< checked (check_model); the compute dtype stays at its default
  std::vector<std::string> unused;  ///< fields that Troupe keeps and does not understand
};

/// Reads the config.json of LlamaForCausalLM, LlamaForTokenClassification with one label, or
/// GPT2LMHeadModel, in the spelling of transformers 4 or 5; a missing field has the default of
/// transformers. Throws Error{data} naming file and field for a value of the wrong type or that
/// check_model refuses, and for a field with which the model would compute what Troupe does not.
HfConfig read_hf_config(const std::filesystem::path& path);

/// The text of a new config.json for float32 weights, with the rope keys of transformers 4, which
/// both versions read.
std::string to_hf_config(const ModelConfig& model);

/// The text of a config.json from which a model began, for the weights that training made of it:
/// float32, with the model's dropout and initializer_range. Every other field stays as it is.
std::string trained_hf_config(const std::string& text, const ModelConfig& model);

/// The text of a config.json whose weights are of this dtype ("float16") from now on.
std::string with_dtype(const std::string& text, std::string_view dtype);

}  // namespace troupe::stages
