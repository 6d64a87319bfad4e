#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "stages/checkpoint.h"
#include "stages/checkpoint/safetensors.h"

namespace troupe::stages {

// Names of the files in a checkpoint directory.
inline constexpr const char* kStateFile = "state.json";
inline constexpr const char* kConfigFile = "config.json";
inline constexpr const char* kTokenizerFile = "tokenizer.model";
inline constexpr const char* kWeightsIndexFile = "model.safetensors.index.json";
inline constexpr const char* kOptimizerIndexFile = "optimizer.safetensors.index.json";

/// Part `part` of `num_parts`, counted from 0; the names count from 1.
std::string weights_file(int part, int num_parts);
std::string optimizer_file(int part, int num_parts);
/// Optimizer state of a parameter.
std::string exp_avg_name(const std::string& parameter);
std::string exp_avg_sq_name(const std::string& parameter);

struct FileRecord {
  std::uint64_t size = 0;
  std::string sum;  ///< XXH64 of the file; of a .safetensors: of its header, which holds those of
                    ///< its tensors
};

/// The content of state.json but for the model, which is in config.json.
struct CheckpointState {
  CheckpointInfo info;
  std::map<std::string, FileRecord> files;
};

/// Examines a file of a checkpoint. Throws Error{data} naming it.
FileRecord record_of(const std::filesystem::path& path);
FileRecord record_of(const SafetensorsFile& file);

inline bool is_safetensors(const std::filesystem::path& path) {
  return path.extension() == ".safetensors";
}

void write_checkpoint_state(const std::filesystem::path& dir, const CheckpointState& state);
/// Throws Error{data} naming file and member.
CheckpointState read_checkpoint_state(const std::filesystem::path& dir);

}  // namespace troupe::stages
