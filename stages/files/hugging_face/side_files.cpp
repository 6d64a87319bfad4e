#include "stages/files/hugging_face/side_files.h"

#include <algorithm>
#include <string_view>

#include "stages/files/hugging_face/hf_tokenizer.h"
#include "stages/files/safetensors/file_names.h"
#include "stages/storage/data_error.h"
#include "stages/storage/input_file.h"
#include "tensor/errors/error.h"

namespace troupe::stages {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMaxBytes = 100'000'000;

/// The endings of files that are kept; "": LICENSE and the like.
constexpr std::string_view kKeptEndings[]{".json",  ".jinja", ".txt",      ".md",
                                          ".model", ".bpe",   ".tiktoken", ""};

constexpr std::string_view kTokenizerFiles[]{
    "added_tokens.json", "chat_template.jinja",     "chat_template.json",    "merges.txt",
    "spiece.model",      "special_tokens_map.json", "tekken.json",           "tiktoken.model",
    "tokenizer.json",    "tokenizer.model",         "tokenizer_config.json", "vocab.json"};

/// Whether a file tells nothing about weights, and is no state of a run.
bool is_kept(const fs::directory_entry& entry) {
  const std::string name = entry.path().filename().string();
  const std::string ending = entry.path().extension().string();
  std::error_code ignored;
  return entry.is_regular_file(ignored) && !name.starts_with('.') && name != kConfigFile &&
         name != kStateFile && name != kAdapterConfigFile && !name.ends_with(".index.json") &&
         std::ranges::count(kKeptEndings, ending) > 0;
}

}  // namespace

ModelSource read_source(const fs::path& dir) {
  return {.config = read_whole_file(dir / kConfigFile, kMaxBytes), .files = read_side_files(dir)};
}

std::map<std::string, std::string> read_side_files(const fs::path& dir) {
  std::map<std::string, std::string> files;
  std::error_code code;
  for (fs::directory_iterator entry(dir, code), end; !code && entry != end; entry.increment(code))
    if (is_kept(*entry) && fs::file_size(entry->path(), code) <= kMaxBytes)
      files[entry->path().filename().string()] = read_whole_file(entry->path(), kMaxBytes);
  if (code) throw data_error("{}: cannot be listed: {}", dir.string(), code.message());
  return files;
}

std::map<std::string, std::string> side_files(const ModelSource& source,
                                              const std::string& tokenizer) {
  std::map<std::string, std::string> files = source.files;
  std::map<std::string, std::string> own = hf_tokenizer_files(tokenizer);
  const std::string name = tokenizer_file(tokenizer);
  const auto is_same = [&files](const auto& file) {
    const auto found = files.find(file.first);
    return found != files.end() && found->second == file.second;
  };
  if (is_same(*own.find(name)) && std::ranges::all_of(copies_beside(tokenizer), is_same))
    return files;
  for (const std::string_view replaced : kTokenizerFiles) files.erase(std::string(replaced));
  std::erase_if(files, [](const auto& file) { return file.first.ends_with(".tiktoken"); });
  files.merge(own);
  return files;
}

}  // namespace troupe::stages
