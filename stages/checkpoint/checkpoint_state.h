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

/// File name of part `part` of `num_parts`, counted from 0; the names count from 1.
std::string weights_file(int part, int num_parts);
std::string optimizer_file(int part, int num_parts);
/// Name of a tensor of a parameter's optimizer state.
std::string exp_avg_name(const std::string& parameter);
std::string exp_avg_sq_name(const std::string& parameter);

struct FileRecord {
  std::uint64_t size = 0;
  /// XXH64 of the file. For a .safetensors only of its header, which holds the sums of its tensors.
  std::string sum;
};

/// The content of state.json, and in `info` also the model, which config.json holds. What is frozen
/// has a group by its name in the model.
struct CheckpointState {
  CheckpointInfo info;
  std::map<std::string, FileRecord> files;
};

/// Whether a name from outside is that of a file in the directory itself.
bool is_plain_name(const std::string& name);

/// Size and checksum of a file of a checkpoint. Throws Error{data} naming it.
FileRecord record_of(const std::filesystem::path& path);
FileRecord record_of(const SafetensorsFile& file);

inline bool is_safetensors(const std::filesystem::path& path) {
  return path.extension() == ".safetensors";
}

void write_checkpoint_state(const std::filesystem::path& dir, const CheckpointState& state);
/// Reads state.json. Throws Error{data} naming file and member.
CheckpointState read_checkpoint_state(const std::filesystem::path& dir);

}  // namespace troupe::stages
