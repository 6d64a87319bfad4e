#pragma once

#include <string>

namespace troupe::stages {

// Names of the files in a checkpoint directory.
inline constexpr const char* kStateFile = "state.json";
inline constexpr const char* kConfigFile = "config.json";
inline constexpr const char* kTokenizerFile = "tokenizer.model";
inline constexpr const char* kWeightsIndexFile = "model.safetensors.index.json";
inline constexpr const char* kOptimizerIndexFile = "optimizer.safetensors.index.json";

/// File name of part `part` of `num_parts`, counted from 0; the names count from 1.
std::string weights_file(int part, int num_parts);
std::string optimizer_file(int part, int num_parts);
/// Name of a tensor of a parameter's optimizer state.
std::string exp_avg_name(const std::string& parameter);
std::string exp_avg_sq_name(const std::string& parameter);

/// Whether a name from outside is that of a file in the directory itself.
bool is_plain_name(const std::string& name);

}  // namespace troupe::stages
