#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "stages/files/checkpoint/checkpoint_content.h"
#include "stages/files/checkpoint/checkpoint_state.h"
#include "stages/files/copies/hugging_face.h"
#include "stages/files/hugging_face/hf_config.h"
#include "stages/files/hugging_face/hf_tokenizer.h"
#include "stages/files/hugging_face/side_files.h"
#include "stages/files/hugging_face/weight_files.h"
#include "stages/files/peft/low_rank.h"
#include "stages/files/safetensors/tensor_copies.h"
#include "stages/storage/data_error.h"
#include "stages/storage/output_file.h"
#include "tensor/errors/error.h"

namespace troupe::stages {
namespace {

namespace fs = std::filesystem;
using tensor::Region;

/// The copies of a model's weights: with its adapter added to them, if there is one.
CopiedAs merged(const CheckpointContent& content, std::optional<WeightDType> dtype) {
  CopiedAs as{.dtype = dtype};
  if (!content.info.adapter) return as;
  const bool transposed = content.info.model.kind == ModelKind::gpt2;  // as all its targets are
  as.change = [&content, transposed](const std::string& tensor) -> TensorChange {
    const auto matrices = find_low_rank(content.adapter, tensor, content.info.adapter->scale());
    if (!matrices) return {};
    return [matrices, transposed](const Region& region, std::span<float> elements) {
      const auto& [row, rows, column, columns] = region;
      if (!transposed) return add_low_rank(*matrices, region, Order::rows, elements);
      add_low_rank(*matrices, {.row = column, .rows = columns, .column = row, .columns = rows},
                   Order::columns, elements);
    };
  };
  return as;
}

/// The name of file `part` of `num_parts`, counted from 0.
using FileName = std::function<std::string(int part, int num_parts)>;

/// Copies the weights of a model into new files of the directory, as many as they lie in, of this
/// dtype or as they are stored.
std::vector<SafetensorsFile> copy_weights(const CheckpointContent& content, const fs::path& dir,
                                          const FileName& name, std::optional<WeightDType> dtype,
                                          const std::stop_token& stop, const Progress& progress) {
  const CopiedAs as = merged(content, dtype);
  std::vector<TensorMap> parts;
  std::vector<SafetensorsLayout> layouts;
  std::uint64_t total = 0;
  for (const SafetensorsFile& file : content.weights_files) {
    TensorMap tensors;
    for (const auto& [tensor, place] : content.weights)
      if (place.file == &file) tensors.emplace(tensor, place);
    if (tensors.empty()) continue;
    layouts.push_back(copied_layout(tensors, as));
    total += layouts.back().size() - layouts.back().head().size();
    parts.push_back(std::move(tensors));
  }
  ProgressSum written(progress, total);
  std::vector<SafetensorsFile> copies;
  const int num_parts = static_cast<int>(parts.size());
  for (std::size_t part = 0; part < parts.size(); ++part)
    copies.push_back(copy_tensors(parts[part], layouts[part],
                                  dir / name(static_cast<int>(part), num_parts), as, stop,
                                  written));
  return copies;
}

ModelCopy copied(const CheckpointContent& content, const ModelSource& source) {
  ModelCopy copy{.files = {},
                 .unused_fields = read_hf_config(content.model_dir / kConfigFile).unused,
                 .left_out = content.left_out,
                 .tokenizer = about_tokenizer(content.tokenizer)};
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
  if (content.info.adapter)
    throw data_error(
        "{} holds an adapter, which a checkpoint cannot be made of; export merges it with its base "
        "{}, and adapter.from trains it",
        from.string(), content.model_dir.string());
  const ModelSource source = source_of(content, from);
  PublishedDirectory directory(to);
  const fs::path& dir = directory.path();
  CheckpointState state;
  const auto add = [&](const std::string& name) { state.files[name] = record_of(dir / name); };
  const auto files = copy_weights(content, dir, weights_file, std::nullopt, stop, progress);
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
  return copied(content, source);
}

ModelCopy export_model(const fs::path& from, const fs::path& to, std::optional<WeightDType> dtype,
                       const std::stop_token& stop, const Progress& progress) {
  const CheckpointContent content = open_content(from);
  const ModelSource source = source_of(content, from);
  PublishedDirectory directory(to);
  const fs::path& dir = directory.path();
  const auto name = [](int part, int num_parts) {
    return num_parts == 1 ? kWeightsFile : weights_file(part, num_parts);
  };
  const auto files = copy_weights(content, dir, name, dtype, stop, progress);
  if (files.size() > 1) write_index(dir / kWeightsIndexFile, map_tensors(files));
  write_whole_file(dir / kConfigFile,
                   dtype ? with_dtype(source.config, name_of(*dtype)) : source.config);
  for (const auto& [file, text] : source.files) write_whole_file(dir / file, text);
  directory.publish();
  return copied(content, source);
}

}  // namespace troupe::stages
