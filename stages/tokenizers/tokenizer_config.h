#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace troupe::stages {

/// What Hugging Face's tokenizer_config.json beside a tokenizer says; it may be missing.
class TokenizerConfig {
 public:
  /// Reads the file in a directory and, as transformers does for older models, the special tokens
  /// of special_tokens_map.json. Throws Error{data} naming a file that is no JSON object.
  explicit TokenizerConfig(const std::filesystem::path& dir);

  const std::filesystem::path& path() const { return path_; }
  /// A member; null if it is missing.
  nlohmann::json member(const char* name) const { return content_.value(name, nlohmann::json()); }
  /// Whether a member is true.
  bool is_set(const char* name) const { return member(name) == true; }

  /// Whether a special token is given, even if as null.
  bool has_token(const char* name) const { return content_.contains(name); }
  /// The text of a special token; none if it is missing or null. Throws Error{data} if it is
  /// neither text nor an object with its "content".
  std::optional<std::string> token(const char* name) const;

 private:
  std::filesystem::path path_;
  nlohmann::json content_;
};

inline constexpr const char* kTokenizerConfigFile = "tokenizer_config.json";
inline constexpr const char* kSpecialTokensFile = "special_tokens_map.json";

}  // namespace troupe::stages
