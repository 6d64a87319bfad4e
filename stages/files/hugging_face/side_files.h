#pragma once

#include <filesystem>
#include <map>
#include <string>

namespace troupe::stages {

/// What checkpoints keep of the model that a run began with, besides its weights, so that whoever
/// takes the model from them finds what was there.
struct ModelSource {
  std::string config;  ///< text of its config.json; empty: the run began with fresh weights
  /// Contents of the files beside it, by name; in a run with those of its tokenizer (side_files),
  /// so that no checkpoint depends on files which may change while it trains.
  std::map<std::string, std::string> files;
  /// What tells its weights from others (base_sum()): an adapter's checkpoint names its base so.
  std::string base_sum{};
};

/// Reads config.json and the files of a model's directory which are neither weights nor about them:
/// tokenizer, generation settings, chat templates, licence. They are those with the endings of text
/// and of tokenizers, at most 100 MB each; folders are left out. Throws Error{data}.
ModelSource read_source(const std::filesystem::path& dir);
/// Reads the files without config.json, which need not be there.
std::map<std::string, std::string> read_side_files(const std::filesystem::path& dir);

/// The files, besides config.json, of a checkpoint of a model that was trained with this tokenizer:
/// those of the source. If the tokenizer is not the source's, its files (hf_tokenizer_files) take
/// the place of the source's.
std::map<std::string, std::string> side_files(const ModelSource& source,
                                              const std::string& tokenizer);

}  // namespace troupe::stages
