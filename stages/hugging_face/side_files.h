#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "stages/checkpoint.h"

namespace troupe::stages {

/// Reads config.json and the files of a model's directory which are neither weights nor about them:
/// tokenizer, generation settings, chat templates, licence. They are those with the endings of text
/// and of tokenizers, at most 100 MB each; folders are left out. Throws Error{data}.
ModelSource read_source(const std::filesystem::path& dir);

/// The files, besides config.json, of a checkpoint of a model that was trained with this tokenizer:
/// those of the source. If the tokenizer is not the source's, its files (hf_tokenizer_files) take
/// the place of the source's.
std::map<std::string, std::string> side_files(const ModelSource& source,
                                              const std::string& tokenizer);

}  // namespace troupe::stages
