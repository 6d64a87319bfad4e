#pragma once

#include <cstddef>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "stages/corpus/chat/jinja_template.h"

namespace troupe::stages {

/// A conversation as a model reads it.
struct ChatText {
  std::string text;
  /// Bytes at which its parts end: what the assistant reads, what it says, and so on in turn. A
  /// part may be empty; what is behind the last end is read.
  std::vector<std::size_t> ends;
};

/// How a tokenizer's model is given conversations: the Jinja template beside its tokenizer.json, as
/// Hugging Face's transformers applies it. Const calls may run in any thread.
class ChatTemplate {
 public:
  /// Reads chat_template.jinja beside the tokenizer, or else "chat_template" of its
  /// tokenizer_config.json (of several the one named default), and the special tokens there.
  /// Throws Error{data} naming the file if the tokenizer is no tokenizer.json, there is no
  /// template, or it uses what is not supported, with its line.
  static ChatTemplate of_tokenizer(const std::string& tokenizer);

  /// The text of `messages`, a list of objects with strings "role" and "content". Throws
  /// Error{data} for messages of another form or that the template refuses.
  std::string text_of(const nlohmann::json& messages) const;
  /// The same, and what the assistant says in it: what {% generation %} marks, or else what each
  /// message of the role assistant adds to the text of those before it with the prompt for an
  /// answer. Throws as text_of() does, and if the text of the first messages is not the beginning
  /// of that of all.
  /// A message of the assistant with "weight": 0 is read and not said.
  ChatText parts_of(const nlohmann::json& messages) const;
  /// The text with which a model is asked for the next message of the assistant.
  std::string prompt_of(const nlohmann::json& messages) const;

 private:
  ChatTemplate(std::string name, JinjaTemplate parsed, JinjaVariables variables)
      : name_(std::move(name)), template_(std::move(parsed)), variables_(std::move(variables)) {}
  enum class Prompt { none, for_answer };
  JinjaOutput render(const nlohmann::json& messages, std::size_t count, Prompt prompt) const;
  /// The bytes of the text of the first messages.
  std::size_t length_of_first(const nlohmann::json& messages, std::size_t count, Prompt prompt,
                              const std::string& whole) const;

  std::string name_;  ///< of the template in messages
  JinjaTemplate template_;
  JinjaVariables variables_;  ///< the special tokens
};

/// Throws Error{data} for a message with "weight": 0, which text_of() would not tell apart.
void check_all_weigh(const nlohmann::json& messages);

/// chat_template.jinja beside a tokenizer, if it exists.
std::optional<std::filesystem::path> chat_template_file(const std::string& tokenizer);

}  // namespace troupe::stages
