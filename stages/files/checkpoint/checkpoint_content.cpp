#include "stages/files/checkpoint/checkpoint_content.h"

#include <fmt/format.h>

#include <algorithm>

#include "stages/files/checkpoint/checkpoint_state.h"
#include "stages/files/hugging_face/hf_config.h"
#include "stages/files/hugging_face/hf_tokenizer.h"
#include "stages/files/hugging_face/tensor_names.h"
#include "stages/files/hugging_face/weight_files.h"
#include "stages/files/peft/base_sum.h"
#include "stages/files/peft/peft_config.h"
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
    auto& files_of_kind = name == kAdapterFile         ? content.adapter_files
                          : name.starts_with("model-") ? content.weights_files
                                                       : content.optimizer_files;
    files_of_kind.push_back(std::move(file));
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
  content.model_dir = dir;
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
  content.model_dir = dir;
  content.info.model = read_hf_config(dir / kConfigFile).model;
  content.info.seq_len = std::min(content.info.model.max_position_embeddings, kLongestSample);
  content.tokenizer = tokenizer_or_bytes(dir, content.info.model.vocab_size);
  content.info.tokenizer = content.tokenizer;
  content.weights_files = open_weight_files(dir);
  NamedTensors named = canonical_names(map_tensors(content.weights_files), content.info.model);
  content.weights = std::move(named.tensors);
  content.weight_parts = std::move(named.parts);
  content.left_out = std::move(named.left_out);
  check_weights(content.weights, content.info.model);
  return content;
}

/// What the base's content has of the adapter's state: what training needs, and no moments.
void take_base(CheckpointContent base, CheckpointContent& content) {
  content.model_dir = std::move(base.model_dir);
  content.weights_files = std::move(base.weights_files);
  content.weight_parts = std::move(base.weight_parts);
  content.weights = std::move(base.weights);
  content.left_out = std::move(base.left_out);
  const tensor::DType dtype = content.info.model.dtype;
  content.info.model = std::move(base.info.model);
  content.info.model.dtype = dtype;
  content.info.model.groups.clear();
}

/// Refuses an adapter that was trained on other weights than its base has now.
void check_base(const CheckpointContent& content, const std::string& expected) {
  if (expected.empty()) return;
  if (const std::string found = base_sum(content.weights); found != expected)
    throw data_error(
        "its base {} has other weights than it was trained on: their XXH64 is {}, and was {}",
        content.model_dir.string(), found, expected);
}

/// The adapter's tensors, of a model that take_base() has set.
void open_adapter_tensors(const fs::path& dir, CheckpointContent& content) {
  content.info.adapter = read_peft_config(dir, content.info.model);
  content.info.adapter->base = content.model_dir.string();
  content.adapter = map_tensors(content.adapter_files);
  check_weights(content.adapter, content.info.trained_model());
}

CheckpointContent open_peft(const fs::path& dir, CheckpointContent base) {
  CheckpointContent content;
  if (!file_exists(dir / kAdapterFile))
    throw data_error("{} is missing{}", kAdapterFile,
                     file_exists(dir / "adapter_model.bin")
                         ? "; adapter_model.bin is another format: save the adapter as safetensors"
                         : "");
  content.info.seq_len = base.info.seq_len;
  content.info.model.dtype = base.info.model.dtype;
  content.tokenizer = tokenizer_in(dir);
  if (content.tokenizer.empty()) content.tokenizer = base.tokenizer;
  content.info.tokenizer = content.tokenizer;
  take_base(std::move(base), content);
  content.adapter_files.push_back(SafetensorsFile::open(dir / kAdapterFile));
  open_adapter_tensors(dir, content);
  return content;
}

CheckpointContent open_adapter_checkpoint(const fs::path& dir, CheckpointContent base) {
  CheckpointContent content;
  CheckpointState state = read_checkpoint_state(dir);
  open_files(dir, state.files, content);
  content.info = std::move(state.info);
  const std::vector<ParameterGroup> groups = content.info.model.groups;
  content.tokenizer = tokenizer_or_bytes(dir, base.info.model.vocab_size, content.info.tokenizer);
  take_base(std::move(base), content);
  content.info.model.groups = groups;
  if (!content.weights.empty()) check_base(content, state.base_sum);
  open_adapter_tensors(dir, content);
  check_sums(content.adapter);
  content.optimizer = map_tensors(content.optimizer_files);
  check_optimizer(content.optimizer, content.info.trained_model());
  check_sums(content.optimizer);
  return content;
}

CheckpointContent open_with_base(const fs::path& dir, CheckpointContent base) {
  return file_exists(dir / kStateFile) ? open_adapter_checkpoint(dir, std::move(base))
                                       : open_peft(dir, std::move(base));
}

CheckpointContent open_adapter(const fs::path& dir, const fs::path& base_dir) {
  if (holds_adapter(base_dir))
    throw data_error("its base {} holds an adapter itself; export merges that with its own base",
                     base_dir.string());
  return open_with_base(dir, open_content(base_dir));
}

}  // namespace

CheckpointContent open_content(const fs::path& dir, const fs::path& base) {
  const auto refuse = [&dir](const std::string& why) {
    return data_error("{} is not a complete checkpoint: {}{}", dir.string(), why, nearest(dir));
  };
  std::error_code ignored;
  if (!file_exists(dir)) throw refuse(why_unreadable(dir, "there is no such directory"));
  if (!fs::is_directory(dir, ignored)) throw refuse("it is not a directory");
  if (holds_adapter(dir))
    return about(dir,
                 [&] { return open_adapter(dir, base.empty() ? base_of_adapter(dir) : base); });
  if (file_exists(dir / kStateFile)) return about(dir, [&] { return open_checkpoint(dir); });
  // What a checkpoint without its last file holds is not taken for a model of others.
  if (file_exists(dir / kOptimizerIndexFile)) throw refuse("state.json is missing");
  if (!file_exists(dir / kConfigFile))
    throw refuse(why_unreadable(dir / kConfigFile,
                                "it holds neither state.json, as checkpoints do, nor config.json, "
                                "as Hugging Face directories do"));
  return about(dir, [&] { return open_hugging_face(dir); });
}

CheckpointContent open_adapter_content(const fs::path& dir, ModelConfig base) {
  CheckpointContent of_base;
  of_base.info.seq_len = std::min(base.max_position_embeddings, kLongestSample);
  of_base.info.model = std::move(base);
  return about(dir, [&] { return open_with_base(dir, std::move(of_base)); });
}

ModelSource source_of(const CheckpointContent& content, const fs::path& dir) {
  ModelSource source = read_source(content.model_dir);
  source.base_sum = base_sum(content.weights);
  if (dir == content.model_dir) return source;
  for (auto& [name, text] : read_side_files(dir)) source.files[name] = std::move(text);
  return source;
}

}  // namespace troupe::stages
