#include "stages/tokenizers/tokenizer_config.h"

#include <fmt/format.h>

#include "stages/storage/input_file.h"
#include "tensor/error.h"

namespace troupe::stages {
namespace {

using nlohmann::json;

constexpr std::uint64_t kMaxBytes = 100'000'000;

/// The object in a file of JSON; an empty one if there is no file.
json read_object(const std::filesystem::path& path) {
  if (!file_exists(path)) return json::object();
  json content = json::parse(read_whole_file(path, kMaxBytes), nullptr, /*allow_exceptions=*/false);
  if (!content.is_object())
    throw Error(ErrorKind::data, fmt::format("{}: expected a JSON object", path.string()));
  return content;
}

}  // namespace

TokenizerConfig::TokenizerConfig(const std::filesystem::path& dir)
    : path_(dir / kTokenizerConfigFile), content_(read_object(path_)) {
  if (!content_.contains("added_tokens_decoder"))
    content_.update(read_object(dir / kSpecialTokensFile));
}

std::optional<std::string> TokenizerConfig::token(const char* name) const {
  json text = member(name);
  if (text.is_object()) text = json(text.value("content", json()));
  if (text.is_null()) return std::nullopt;
  if (!text.is_string())
    throw Error(ErrorKind::data, fmt::format("{}: {} is no text", path_.string(), name));
  return text.get<std::string>();
}

}  // namespace troupe::stages
