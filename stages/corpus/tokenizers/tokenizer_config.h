#pragma once

#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace troupe::stages {

/// What the files of Hugging Face's transformers beside a tokenizer say; each may be missing.
class TokenizerConfig {
 public:
  /// Reads the files in a directory. As transformers does, it takes special_tokens_map.json and
  /// added_tokens.json, which older models have, only if tokenizer_config.json has no
  /// "added_tokens_decoder". Throws Error{data} naming a file that is no JSON object.
  explicit TokenizerConfig(const std::filesystem::path& dir);

  /// tokenizer_config.json.
  const std::filesystem::path& path() const { return path_; }
  /// All members of it and of special_tokens_map.json, in the files' order.
  const nlohmann::ordered_json& members() const { return content_; }
  /// The members of special_tokens_map.json alone that are among them.
  const nlohmann::ordered_json& special_tokens_map() const { return special_tokens_; }
  /// A member; null if it is missing.
  nlohmann::json member(const char* name) const {
    return nlohmann::json(content_.value(name, nlohmann::ordered_json()));
  }
  /// Whether a member is true.
  bool is_set(const char* name) const { return member(name) == true; }
  /// The first number of the version of transformers that wrote the directory, by
  /// tokenizer_config.json or else config.json; 0 if none of them says it.
  int transformers_version() const;
  /// The ids in added_tokens.json by the tokens' names.
  const nlohmann::ordered_json& added_tokens() const { return added_tokens_; }

  /// Whether a special token is given, even if as null.
  bool has_token(const char* name) const { return content_.contains(name); }
  /// The text of a special token; none if it is missing or null. Throws Error{data} if it is
  /// neither text nor an object with its "content".
  std::optional<std::string> token(const char* name) const;

 private:
  std::filesystem::path path_;
  nlohmann::ordered_json content_;
  nlohmann::ordered_json special_tokens_ = nlohmann::ordered_json::object();
  nlohmann::ordered_json added_tokens_ = nlohmann::ordered_json::object();
};

inline constexpr const char* kTokenizerConfigFile = "tokenizer_config.json";
inline constexpr const char* kSpecialTokensFile = "special_tokens_map.json";
inline constexpr const char* kAddedTokensFile = "added_tokens.json";
inline constexpr const char* kChatTemplateFile = "chat_template.jinja";

/// The special tokens that every tokenizer may name, in the order in which transformers adds them.
inline constexpr std::array<const char*, 7> kSpecialTokens{
    "bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"};

/// Who wrote the directory, in tokenizer_config.json or config.json.
inline constexpr const char* kVersionMember = "transformers_version";
/// The merges of a vocab.json.
inline constexpr const char* kMergesFile = "merges.txt";
inline constexpr const char* kVocabularyFile = "vocab.json";

/// What lies beside a tokenizer of the files above; nothing if it is "bytes".
std::vector<std::filesystem::path> files_beside(const std::string& tokenizer);

/// The member that lists special tokens without a name, and what it was called before.
inline constexpr const char* kExtraTokens = "extra_special_tokens";
inline constexpr const char* kAdditionalTokens = "additional_special_tokens";

}  // namespace troupe::stages
