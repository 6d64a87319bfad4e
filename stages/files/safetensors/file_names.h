#pragma once

#include <fmt/format.h>

#include <string>

namespace troupe::stages {

// Names of the files in a checkpoint directory.
inline constexpr const char* kStateFile = "state.json";
inline constexpr const char* kConfigFile = "config.json";
inline constexpr const char* kAdapterConfigFile = "adapter_config.json";
inline constexpr const char* kAdapterFile = "adapter_model.safetensors";
inline constexpr const char* kTokenizerFile = "tokenizer.model";
inline constexpr const char* kWeightsIndexFile = "model.safetensors.index.json";
inline constexpr const char* kOptimizerIndexFile = "optimizer.safetensors.index.json";

/// File name of part `part` of `num_parts`, counted from 0; the names count from 1.
inline std::string weights_file(int part, int num_parts) {
  return fmt::format("model-{:05}-of-{:05}.safetensors", part + 1, num_parts);
}
/// What an adapter's tensors are in until the parts are joined.
inline std::string adapter_part_file(int part, int num_parts) {
  return fmt::format("adapter-{:05}-of-{:05}.safetensors", part + 1, num_parts);
}
inline std::string optimizer_file(int part, int num_parts) {
  return fmt::format("optimizer-{:05}-of-{:05}.safetensors", part + 1, num_parts);
}
/// Name of a tensor of a parameter's optimizer state.
inline std::string exp_avg_name(const std::string& parameter) {
  return parameter + ".exp_avg";
}
inline std::string exp_avg_sq_name(const std::string& parameter) {
  return parameter + ".exp_avg_sq";
}

/// Whether a name from outside is that of a file in the directory itself.
inline bool is_plain_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos &&
         name.find('\0') == std::string::npos;
}

}  // namespace troupe::stages
