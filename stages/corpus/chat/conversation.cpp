#include "stages/corpus/chat/conversation.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "tensor/errors/error.h"

namespace troupe::stages {
namespace {

using json = nlohmann::ordered_json;

/// Members under which a message's reasoning is given. Templates read the first, or the second.
constexpr std::array<const char*, 3> kReasoning{"reasoning_content", "thinking", "reasoning"};
/// Members beside which a message needs no content.
constexpr std::array<const char*, 5> kInPlace{"tool_calls", "function_call", "reasoning_content",
                                              "thinking", "reasoning"};

[[noreturn]] void refuse(std::size_t i, std::string_view why) {
  throw Error(ErrorKind::data, fmt::format("message {} {}", i + 1, why));
}

bool has(const json& message, const char* name) {
  const auto found = message.find(name);
  return found != message.end() && !found->is_null();
}

void check_content(const json& message, std::size_t i) {
  const json content = message.value("content", json());
  if (content.is_string()) return;
  if (content.is_null()) {
    if (std::ranges::any_of(kInPlace, [&](const char* name) { return has(message, name); })) return;
    refuse(i, "has no \"content\", which is a string or a list of parts, and no \"tool_calls\"");
  }
  if (!content.is_array() || content.empty())
    refuse(i, "has a \"content\" that is neither a string nor a list of parts");
  for (const json& part : content) {
    const json type = part.is_object() ? part.value("type", json()) : json();
    if (type.is_string() && type != "text")
      refuse(i, fmt::format("has a part of the type {} in its \"content\", and only text is read",
                            type.dump()));
    if (!type.is_string() || !part.value("text", json()).is_string())
      refuse(i, "has a part in its \"content\" that is no {\"type\": \"text\", \"text\": \"...\"}");
  }
}

void check(const json& message, std::size_t i) {
  if (!message.is_object()) refuse(i, "is no object");
  if (!message.value("role", json()).is_string()) refuse(i, "has no string \"role\"");
  check_content(message, i);
  if (const json weight = message.value("weight", json());
      !weight.is_null() && weight != 0 && weight != 1)
    refuse(i, fmt::format("has the \"weight\" {}; it must be 0 or 1", weight.dump()));
}

json without_null(const json& message) {
  json out = json::object();
  for (const auto& [name, value] : message.items())
    if (!value.is_null()) out[name] = value;
  return out;
}

/// Gives the reasoning under each name that templates read, in the order that transformers has.
json with_reasoning(const json& message) {
  const auto* const given =
      std::ranges::find_if(kReasoning, [&](const char* name) { return has(message, name); });
  if (given == kReasoning.end()) return message;
  const json reasoning = message.at(*given);
  json out = {{"thinking", reasoning}};
  out.update(message);
  out["reasoning_content"] = reasoning;
  return out;
}

}  // namespace

std::vector<ChatMessage> chat_messages(const json& messages) {
  if (!messages.is_array() || messages.empty())
    throw Error(ErrorKind::data,
                "\"messages\" must be a list of at least one object with a \"role\" and a "
                "\"content\"");
  std::vector<ChatMessage> all;
  for (std::size_t i = 0; i < messages.size(); ++i) {
    check(messages[i], i);
    const json message = with_reasoning(without_null(messages[i]));
    all.push_back({.value = JinjaValue::of(message),
                   .is_answer = message["role"] == "assistant",
                   .weighs = message.value("weight", json(1)) != 0});
  }
  return all;
}

std::vector<ChatMessage> with_plain_contents(std::vector<ChatMessage> messages) {
  for (ChatMessage& message : messages) {
    JinjaObject members = message.value.members();
    for (auto& [name, value] : members) {
      if (name != "content" || !value.is_sequence()) continue;
      std::string text;
      for (const JinjaValue& part : value.elements()) text += part.find("text")->text();
      value = text;
    }
    message.value = JinjaValue::object(std::move(members));
  }
  return messages;
}

}  // namespace troupe::stages
