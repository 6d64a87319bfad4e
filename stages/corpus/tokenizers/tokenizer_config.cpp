#include "stages/corpus/tokenizers/tokenizer_config.h"

#include <fmt/format.h>

#include <charconv>

#include "stages/corpus/tokenizers/tokenizer.h"
#include "stages/storage/input_file.h"
#include "stages/storage/json_reason.h"
#include "tensor/errors/error.h"

namespace troupe::stages {
namespace {

using nlohmann::ordered_json;

constexpr std::uint64_t kMaxBytes = 100'000'000;

/// The object in a file of JSON; an empty one if there is no file.
ordered_json read_object(const std::filesystem::path& path) {
  if (!file_exists(path)) return ordered_json::object();
  try {
    ordered_json content = ordered_json::parse(read_whole_file(path, kMaxBytes));
    if (content.is_object()) return content;
  } catch (const nlohmann::json::exception& error) {
    throw Error(ErrorKind::data, fmt::format("{}: no JSON: {}", path.string(), json_reason(error)));
  }
  throw Error(ErrorKind::data, fmt::format("{}: expected a JSON object", path.string()));
}

}  // namespace

TokenizerConfig::TokenizerConfig(const std::filesystem::path& dir)
    : path_(dir / kTokenizerConfigFile), content_(read_object(path_)) {
  if (content_.contains("added_tokens_decoder")) return;
  special_tokens_ = read_object(dir / kSpecialTokensFile);
  if (content_.contains(kAdditionalTokens) || content_.contains(kExtraTokens))
    special_tokens_.erase(kAdditionalTokens);
  content_.update(special_tokens_);
  added_tokens_ = read_object(dir / kAddedTokensFile);
}

std::optional<std::string> TokenizerConfig::token(const char* name) const {
  nlohmann::json text = member(name);
  if (text.is_object()) text = nlohmann::json(text.value("content", nlohmann::json()));
  if (text.is_null()) return std::nullopt;
  if (!text.is_string())
    throw Error(ErrorKind::data, fmt::format("{}: {} is no text", path_.string(), name));
  return text.get<std::string>();
}

int TokenizerConfig::transformers_version() const {
  nlohmann::json version = member(kVersionMember);
  if (!version.is_string())
    version = nlohmann::json(
        read_object(path_.parent_path() / "config.json").value(kVersionMember, ordered_json()));
  const std::string text = version.is_string() ? version.get<std::string>() : "";
  int number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

std::vector<std::filesystem::path> files_beside(const std::string& tokenizer) {
  std::vector<std::filesystem::path> files;
  if (tokenizer == kBytesTokenizer) return files;
  const auto dir = std::filesystem::path(tokenizer).parent_path();
  for (const char* name :
       {kTokenizerConfigFile, kSpecialTokensFile, kAddedTokensFile, kChatTemplateFile})
    if (file_exists(dir / name)) files.push_back(dir / name);
  if (std::filesystem::path(tokenizer).filename() == kVocabularyFile &&
      file_exists(dir / kMergesFile))
    files.push_back(dir / kMergesFile);
  return files;
}

}  // namespace troupe::stages
