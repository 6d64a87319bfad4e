#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "stages/files/checkpoint/checkpoint.h"
#include "stages/files/safetensors/file_names.h"
#include "stages/files/safetensors/safetensors.h"

namespace troupe::stages {

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
  std::string base_sum{};  ///< base_sum() of the model that an adapter is for; empty: of none
};

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
