#include "stages/files/checkpoint/checkpoint_content.h"

#include <fmt/format.h>

#include <algorithm>

#include "stages/files/checkpoint/checkpoint_state.h"
#include "stages/files/hugging_face/hf_config.h"
#include "stages/files/hugging_face/hf_tokenizer.h"
#include "stages/files/hugging_face/tensor_names.h"
#include "stages/files/hugging_face/weight_files.h"
#include "stages/storage/data_error.h"
#include "stages/storage/input_file.h"
#include "tensor/errors/error.h"

namespace troupe::stages {
namespace {

namespace fs = std::filesystem;

/// Longest sample of commands that are not told how long samples are, as attention's memory grows
/// with it.
constexpr std::int64_t kLongestSample = 2048;

void check_record(const std::string& name, const FileRecord& expected, const FileRecord& found) {
  if (found.size != expected.size)
    throw data_error("{} has {} bytes, {} were written", name, found.size, expected.size);
  if (found.sum != expected.sum)
    throw data_error("{} is damaged: its checksum is {}, {} was written", name, found.sum,
                     expected.sum);
}

/// Opens the files that state.json lists and compares them with it.
void open_files(const fs::path& dir, const std::map<std::string, FileRecord>& files,
                CheckpointContent& content) {
  for (const auto& [name, expected] : files) {
    if (!is_safetensors(name)) {
      check_record(name, expected, record_of(dir / name));
      continue;
    }
    SafetensorsFile file = SafetensorsFile::open(dir / name);
    check_record(name, expected, record_of(file));
    (name.starts_with("model-") ? content.weights_files : content.optimizer_files)
        .push_back(std::move(file));
  }
}

/// Suggests the newest complete checkpoint of the run that `dir` belongs to, if there is one.
std::string nearest(const fs::path& dir) {
  for (const fs::path& place : {dir, dir / "checkpoints", dir.parent_path()}) {
    const std::vector<std::int64_t> steps = complete_checkpoints(place);
    if (steps.empty()) continue;
    return fmt::format("; {} is complete", (place / fmt::format("step-{}", steps.back())).string());
  }
  return {};
}

CheckpointContent open_checkpoint(const fs::path& dir) {
  CheckpointContent content;
  CheckpointState state = read_checkpoint_state(dir);
  open_files(dir, state.files, content);
  content.info = std::move(state.info);
  ModelConfig model = read_hf_config(dir / kConfigFile).model;
  model.dtype = content.info.model.dtype;
  model.groups = std::move(content.info.model.groups);
  content.info.model = std::move(model);
  content.tokenizer =
      tokenizer_or_bytes(dir, content.info.model.vocab_size, content.info.tokenizer);
  content.weights = map_tensors(content.weights_files);
  content.optimizer = map_tensors(content.optimizer_files);
  check_weights(content.weights, content.info.model);
  check_sums(content.weights);
  if (!state.files.contains(kOptimizerIndexFile)) return content;  // an imported model
  check_optimizer(content.optimizer, content.info.model);
  check_sums(content.optimizer);
  return content;
}

CheckpointContent open_hugging_face(const fs::path& dir) {
  CheckpointContent content;
  content.info.model = read_hf_config(dir / kConfigFile).model;
  content.info.seq_len = std::min(content.info.model.max_position_embeddings, kLongestSample);
  content.tokenizer = tokenizer_or_bytes(dir, content.info.model.vocab_size);
  content.info.tokenizer = content.tokenizer;
  content.weights_files = open_weight_files(dir);
  NamedTensors named = canonical_names(map_tensors(content.weights_files), content.info.model);
  content.weights = std::move(named.tensors);
  content.left_out = std::move(named.left_out);
  check_weights(content.weights, content.info.model);
  return content;
}

}  // namespace

CheckpointContent open_content(const fs::path& dir) {
  const auto refuse = [&dir](const std::string& why) {
    return data_error("{} is not a complete checkpoint: {}{}", dir.string(), why, nearest(dir));
  };
  std::error_code ignored;
  if (!file_exists(dir)) throw refuse(why_unreadable(dir, "there is no such directory"));
  if (!fs::is_directory(dir, ignored)) throw refuse("it is not a directory");
  if (file_exists(dir / kStateFile)) return about(dir, [&] { return open_checkpoint(dir); });
  // What a checkpoint without its last file holds is not taken for a model of others.
  if (file_exists(dir / kOptimizerIndexFile)) throw refuse("state.json is missing");
  if (!file_exists(dir / kConfigFile))
    throw refuse(why_unreadable(dir / kConfigFile,
                                "it holds neither state.json, as checkpoints do, nor config.json, "
                                "as Hugging Face directories do"));
  return about(dir, [&] { return open_hugging_face(dir); });
}

}  // namespace troupe::stages
