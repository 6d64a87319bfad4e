#include <fmt/format.h>

#include "stages/files/checkpoint/checkpoint.h"
#include "stages/files/checkpoint/checkpoint_dirs.h"
#include "stages/files/checkpoint/checkpoint_state.h"
#include "stages/files/checkpoint/removal.h"
#include "stages/files/checkpoint/room.h"
#include "stages/files/hugging_face/hf_config.h"
#include "stages/files/hugging_face/weight_files.h"
#include "stages/files/peft/peft_config.h"
#include "stages/files/safetensors/model_tensors.h"
#include "stages/files/safetensors/safetensors.h"
#include "stages/files/safetensors/tensor_copies.h"
#include "stages/storage/input_file.h"
#include "stages/storage/output_file.h"
#include "tensor/errors/error.h"

namespace troupe::stages {
namespace {

namespace fs = std::filesystem;

void refuse_if_stopped(const std::stop_token& stop) {
  if (stop.stop_requested()) throw Error(ErrorKind::retry, "stopped half way");
}

/// Joins an adapter's tensors in the one file that PEFT reads.
FileRecord join_adapter(const fs::path& dir, const TensorMap& tensors,
                        const std::stop_token& stop) {
  const Progress nobody;
  ProgressSum written(nobody, 0);
  const CopiedAs as;
  return record_of(
      copy_tensors(tensors, copied_layout(tensors, as), dir / kAdapterFile, as, stop, written));
}

/// Opens the parts' files, checks that they hold the whole model, and writes their indexes, or
/// joins an adapter's. Returns the records of all files that stay.
std::map<std::string, FileRecord> index_parts(const fs::path& dir, const ModelConfig& model,
                                              int num_parts, const std::stop_token& stop) {
  std::map<std::string, FileRecord> records;
  std::vector<SafetensorsFile> weights, optimizer;
  const auto open = [&](const std::string& name, std::vector<SafetensorsFile>& files) {
    refuse_if_stopped(stop);
    files.push_back(SafetensorsFile::open(dir / name));
    records[name] = record_of(files.back());
  };
  const auto weights_name = model.adapter ? adapter_part_file : weights_file;
  for (int part = 0; part < num_parts; ++part) {
    open(weights_name(part, num_parts), weights);
    open(optimizer_file(part, num_parts), optimizer);
  }
  const TensorMap weight_map = map_tensors(weights), optimizer_map = map_tensors(optimizer);
  check_weights(weight_map, model);
  check_optimizer(optimizer_map, model);
  check_sums(weight_map);
  check_sums(optimizer_map);
  const auto add_index = [&](const char* name, const TensorMap& tensors) {
    write_index(dir / name, tensors);
    records[name] = record_of(dir / name);
  };
  add_index(kOptimizerIndexFile, optimizer_map);
  if (!model.adapter) {
    add_index(kWeightsIndexFile, weight_map);
    return records;
  }
  for (int part = 0; part < num_parts; ++part) records.erase(weights_name(part, num_parts));
  records[kAdapterFile] = join_adapter(dir, weight_map, stop);
  return records;
}

/// Removes files that an attempt with other parts has left there.
void remove_others(const fs::path& dir, const std::map<std::string, FileRecord>& files) {
  std::error_code code;
  for (fs::directory_iterator entry(dir, code), end; !code && entry != end; entry.increment(code)) {
    if (files.contains(entry->path().filename().string())) continue;
    fs::remove_all(entry->path(), code);
    if (is_nfs_rename(entry->path())) code.clear();
  }
  refuse_if(code, fmt::format("checkpoint {}: cannot clear", dir.string()));
}

/// Writes what the ranks have not, state.json last.
void write_rest(const fs::path& dir, const CheckpointInfo& info, int num_parts,
                const ModelSource& source, const std::stop_token& stop) {
  CheckpointState state{.info = info, .files = index_parts(dir, info.model, num_parts, stop)};
  const auto add = [&](const std::string& name, const std::string& content) {
    write_whole_file(dir / name, content);
    state.files[name] = record_of(dir / name);
  };
  if (info.model.adapter) {
    state.base_sum = source.base_sum;
    add(kAdapterConfigFile, to_peft_config(info.model));
  } else {
    add(kConfigFile, source.config.empty() ? to_hf_config(info.model)
                                           : trained_hf_config(source.config, info.model));
  }
  for (const auto& [name, content] : source.files) add(name, content);
  // All is done again where room was wanting, which needs the parts that were joined.
  auto kept = state.files;
  for (int part = 0; info.model.adapter && part < num_parts; ++part)
    kept[adapter_part_file(part, num_parts)] = {};
  remove_others(dir, kept);
  refuse_if_stopped(stop);
  write_checkpoint_state(dir, state);
}

}  // namespace

CheckpointNotes finish_checkpoint(const fs::path& dir, const CheckpointInfo& info, int num_parts,
                                  const ModelSource& source, const std::stop_token& stop) {
  const fs::path checkpoints = dir.parent_path();
  CheckpointNotes notes{.removed = noted_as_removed(dir), .set_aside = {}};
  const auto removed = write_with_room(checkpoints, [&] {
    write_rest(dir, info, num_parts, source, stop);
    sync_directory(dir);
    note_newest(checkpoints, info.step);
  });
  notes.removed.insert(notes.removed.end(), removed.begin(), removed.end());
  std::error_code code;
  for (int part = 0; info.model.adapter && part < num_parts; ++part)
    fs::remove(dir / adapter_part_file(part, num_parts), code);
  const fs::path target = checkpoints / step_name(info.step);
  notes.set_aside = set_aside_checkpoint(target);
  fs::rename(dir, target, code);
  refuse_if(code, fmt::format("{}: cannot rename to {}", dir.string(), target.string()));
  sync_directory(checkpoints);
  return notes;
}

}  // namespace troupe::stages
