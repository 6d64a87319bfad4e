#pragma once

#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <variant>

#include "stages/corpus/chat/conversation.h"
#include "stages/corpus/text/documents.h"
#include "stages/corpus/text/text_rules.h"

namespace troupe::stages {

/// A text that a model is asked to go on with, and what it goes on with.
struct PromptedText {
  std::string prompt;
  std::string response;
};

/// A document of JSON lines.
struct Record {
  std::string_view layout;  ///< what its members are, in words
  std::variant<std::string, PromptedText, Conversation> content;
};

/// The names that TextRules::fields may map.
inline constexpr std::array<std::string_view, 9> kRecordFields{
    "text", "prompt", "response", "messages", "instruction", "input", "output", "system", "tools"};

/// What an object holds, by its members, of which the first of these decides: "text";
/// "messages"; "conversations" (ShareGPT); "instruction" with "output" (alpaca) or "response"
/// (dolly); "prompt" with "response" or "completion"; "content" or "raw_content". With
/// LossOn::response it must be one in which prompts are told apart. Throws Error{data} for another
/// one, a preference set, and what has pictures.
Record record_of(const nlohmann::ordered_json& object, LossOn loss_on, const TextRules& rules);

}  // namespace troupe::stages
