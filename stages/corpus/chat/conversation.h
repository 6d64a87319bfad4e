#pragma once

#include <nlohmann/json.hpp>

#include "stages/corpus/chat/jinja/values/jinja_value.h"

namespace troupe::stages {

/// A conversation, and what else its template is told.
struct Conversation {
  /// Objects with a "role" and a "content": a string, or a list of parts {"type": "text", "text"};
  /// null or nothing where a message has "tool_calls" or reasoning.
  nlohmann::ordered_json messages;
  nlohmann::ordered_json tools = nullptr;      ///< a list of JSON schemas, or null
  nlohmann::ordered_json documents = nullptr;  ///< a list of objects, or null
  /// An object of variables by name, as {"enable_thinking": false}.
  nlohmann::ordered_json variables = nlohmann::ordered_json::object();
};

/// A message as a template is given it.
struct ChatMessage {
  JinjaValue value;
  bool is_answer = false;  ///< of the assistant
  bool weighs = true;      ///< whether it is trained where what the assistant says is
};

/// The messages as transformers hands them to a template: without members that are null, and with
/// reasoning under all the names that templates use. Throws Error{data} for messages of another
/// form.
std::vector<ChatMessage> chat_messages(const nlohmann::ordered_json& messages);
/// These messages with each content of several parts as one string, for templates that know strings
/// alone.
std::vector<ChatMessage> with_plain_contents(std::vector<ChatMessage> messages);

}  // namespace troupe::stages
