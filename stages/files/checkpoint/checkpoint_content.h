#pragma once

#include <fmt/format.h>

#include <filesystem>
#include <list>
#include <string>
#include <vector>

#include "stages/files/checkpoint/checkpoint.h"
#include "stages/files/safetensors/model_tensors.h"
#include "tensor/errors/error.h"

namespace troupe::stages {

/// A directory that holds a model, opened and checked: headers, names and shapes, no tensor's
/// bytes. Move-only, as the maps point into the files.
struct CheckpointContent {
  CheckpointContent() = default;
  CheckpointContent(CheckpointContent&&) = default;
  CheckpointContent& operator=(CheckpointContent&&) = default;

  CheckpointInfo info;
  std::string tokenizer;            ///< for Tokenizer::open; empty: not known
  std::filesystem::path model_dir;  ///< where config.json is: the directory, or an adapter's base
  std::vector<SafetensorsFile> weights_files, optimizer_files;
  std::vector<SafetensorsFile> adapter_files;  ///< none without an adapter
  std::list<TensorEntry> weight_parts;         ///< NamedTensors::parts
  TensorMap weights;                           ///< by canonical names
  TensorMap adapter;
  TensorMap optimizer;  ///< empty: there is no state of an optimizer
  std::vector<std::string>
      left_out;  ///< tensors of the weights' files that the model does not need
};

/// Runs `body` and names this directory in its errors.
template <typename Body>
auto about(const std::filesystem::path& dir, Body&& body) {
  try {
    return body();
  } catch (const Error& error) {
    throw Error(error.kind(), fmt::format("checkpoint {}: {}", dir.string(), error.what()));
  }
}

/// Opens a checkpoint (state.json, the files it lists, config.json) or a Hugging Face directory
/// (config.json and the weights). The latter computes in float32, and its samples are as long as
/// sequences may be, at most 2048 tokens. Or opens an adapter's directory, of either kind, with its
/// base, in this directory if one is given. Throws Error{data} that names the file and what is
/// wrong.
CheckpointContent open_content(const std::filesystem::path& dir,
                               const std::filesystem::path& base = {});

/// Opens an adapter's directory of either kind, for this base, without weights of it.
CheckpointContent open_adapter_content(const std::filesystem::path& dir, ModelConfig base);

/// What checkpoints of a run that begins with this directory are to keep of it.
ModelSource source_of(const CheckpointContent& content, const std::filesystem::path& dir);

}  // namespace troupe::stages
