#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "stages/corpus/chat/conversation.h"
#include "stages/corpus/chat/jinja/jinja_template.h"

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
  /// tokenizer_config.json (of several the one named default), and the special tokens there. Where
  /// the template asks for the time, it is the begin of the day `date` (begin_of_day), or of today
  /// if that is empty. Throws Error{data} naming the file if the tokenizer is no tokenizer.json,
  /// there is no template, or it uses what is not supported, with its line.
  static ChatTemplate of_tokenizer(const std::string& tokenizer, const std::string& date = "");

  /// The text of a conversation. Throws Error{data} for one of another form or that the template
  /// refuses.
  std::string text_of(const Conversation& conversation) const;
  /// The same, and what the assistant says in it: what {% generation %} marks, or else what each
  /// message of the role assistant adds to the text of those before it with the prompt for an
  /// answer. Where the text of the first messages is not the beginning of that of all, because a
  /// template leaves the thoughts of earlier answers out, the answers are found by what changes
  /// when others stand in their place. Throws as text_of() does, and if no way leads to them.
  /// A message of the assistant with "weight": 0 is read and not said.
  ChatText parts_of(const Conversation& conversation) const;
  /// The text with which a model is asked for the next message of the assistant.
  std::string prompt_of(const Conversation& conversation) const;

 private:
  ChatTemplate(std::string name, JinjaTemplate parsed, JinjaVariables variables)
      : name_(std::move(name)), template_(std::move(parsed)), variables_(std::move(variables)) {}
  friend class ChatParts;

  enum class Prompt { none, for_answer };
  /// What was made of a conversation, and of what.
  struct Rendering {
    JinjaOutput output;
    std::vector<ChatMessage> messages;
    JinjaVariables variables;  ///< without the messages
  };
  Rendering render(const Conversation& conversation, Prompt prompt) const;
  JinjaOutput render(std::span<const ChatMessage> messages, const JinjaVariables& variables,
                     Prompt prompt) const;
  [[noreturn]] void fail(std::string_view why) const;

  std::string name_;  ///< of the template in messages
  JinjaTemplate template_;
  JinjaVariables variables_;  ///< the special tokens
};

/// Throws Error{data} for a message with "weight": 0, which text_of() would not tell apart.
void check_all_weigh(const Conversation& conversation);

/// chat_template.jinja beside a tokenizer, if it exists.
std::optional<std::filesystem::path> chat_template_file(const std::string& tokenizer);
/// Whether the template beside a tokenizer, if there is one, asks for the time.
bool chat_template_reads_date(const std::string& tokenizer);

}  // namespace troupe::stages
