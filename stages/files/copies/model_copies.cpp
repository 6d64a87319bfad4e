#include <fmt/format.h>

#include <algorithm>

#include "stages/files/checkpoint/checkpoint_content.h"
#include "stages/files/checkpoint/checkpoint_state.h"
#include "stages/files/copies/hugging_face.h"
#include "stages/files/copies/weight_copies.h"
#include "stages/files/hugging_face/hf_config.h"
#include "stages/files/hugging_face/side_files.h"
#include "stages/files/hugging_face/weight_files.h"
#include "stages/storage/output_directory.h"
#include "stages/storage/output_file.h"

namespace troupe::stages {
namespace {

namespace fs = std::filesystem;

ModelCopy copied(const fs::path& from, const CheckpointContent& content,
                 const ModelSource& source) {
  ModelCopy copy{.files = {},
                 .unused_fields = read_hf_config(from / kConfigFile).unused,
                 .left_out = content.left_out};
  for (const auto& [name, text] : source.files) copy.files.push_back(name);
  return copy;
}

/// The name under which a checkpoint records a tokenizer of its directory.
std::string recorded_tokenizer(const std::string& tokenizer) {
  return fs::path(tokenizer).filename().string();
}

}  // namespace

ModelCopy import_model(const fs::path& from, const fs::path& to, const std::stop_token& stop,
                       const Progress& progress) {
  const CheckpointContent content = open_content(from);
  const ModelSource source = read_source(from);
  PublishedDirectory directory(to);
  const fs::path& dir = directory.path();
  CheckpointState state;
  const auto add = [&](const std::string& name) { state.files[name] = record_of(dir / name); };
  const auto files = copy_weights(content, dir, weights_file, std::nullopt, {stop, progress});
  write_index(dir / kWeightsIndexFile, map_tensors(files));
  for (const SafetensorsFile& file : files) add(file.path().filename().string());
  add(kWeightsIndexFile);
  write_whole_file(dir / kConfigFile, source.config);
  add(kConfigFile);
  for (const auto& [name, text] : source.files) {
    write_whole_file(dir / name, text);
    add(name);
  }
  state.info = {.model = content.info.model,
                .tokenizer = recorded_tokenizer(content.tokenizer),
                .seq_len = content.info.seq_len,
                .training = std::nullopt};
  write_checkpoint_state(dir, state);
  directory.publish();
  return copied(from, content, source);
}

ModelCopy export_model(const fs::path& from, const fs::path& to, std::optional<WeightDType> dtype,
                       const std::stop_token& stop, const Progress& progress) {
  const CheckpointContent content = open_content(from);
  const ModelSource source = read_source(from);
  PublishedDirectory directory(to);
  const fs::path& dir = directory.path();
  const auto name = [](int part, int num_parts) {
    return num_parts == 1 ? kWeightsFile : weights_file(part, num_parts);
  };
  const auto files = copy_weights(content, dir, name, dtype, {stop, progress});
  if (files.size() > 1) write_index(dir / kWeightsIndexFile, map_tensors(files));
  write_whole_file(dir / kConfigFile,
                   dtype ? with_dtype(source.config, name_of(*dtype)) : source.config);
  for (const auto& [file, text] : source.files) write_whole_file(dir / file, text);
  directory.publish();
  return copied(from, content, source);
}

}  // namespace troupe::stages
