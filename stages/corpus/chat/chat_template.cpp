#include "stages/corpus/chat/chat_template.h"

#include <fmt/format.h>

#include <algorithm>

#include "stages/corpus/chat/chat_date.h"
#include "stages/corpus/chat/jinja/values/jinja_text.h"
#include "stages/corpus/tokenizers/text/utf8.h"
#include "stages/corpus/tokenizers/tokenizer_config.h"
#include "stages/storage/input_file.h"
#include "tensor/errors/error.h"

namespace troupe::stages {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr const char* kTemplate = "chat_template";
/// Limit of a template, far above any in use.
constexpr std::size_t kMaxTemplateBytes = 1'000'000;

[[noreturn]] void fail_at(const std::string& place, std::string_view why) {
  throw Error(ErrorKind::data, fmt::format("{}: {}", place, why));
}

/// The template that a tokenizer_config.json gives; none if it gives none.
std::optional<std::string> template_in(const TokenizerConfig& config) {
  const json given = config.member(kTemplate);
  if (given.is_string()) return given.get<std::string>();
  if (given.is_array())
    for (const json& one : given)
      if (one.is_object() && one.value("name", json()) == "default" &&
          one.value("template", json()).is_string())
        return one["template"].get<std::string>();
  return std::nullopt;
}

/// The text of a template, and its name in messages.
struct Source {
  std::optional<std::string> text;
  std::string name;
};

Source source_beside(const std::string& tokenizer, const TokenizerConfig& config) {
  if (const auto jinja = chat_template_file(tokenizer))
    return {.text = read_whole_file(*jinja, kMaxTemplateBytes), .name = jinja->string()};
  return {.text = template_in(config),
          .name = fmt::format("{}: {}", config.path().string(), kTemplate)};
}

/// A class of transformers that is not named after a model has no special tokens of its own.
bool has_own_tokens(const TokenizerConfig& config) {
  const json name = config.member("tokenizer_class");
  return name != "PreTrainedTokenizerFast" && name != "TokenizersBackend";
}

JinjaVariables special_tokens(const TokenizerConfig& config) {
  JinjaVariables variables;
  for (const char* name : kSpecialTokens) {
    if (const auto token = config.token(name))
      variables.values[name] = *token;
    else if (!config.has_token(name) && has_own_tokens(config))
      variables.refused[name] = fmt::format("is missing in {}", config.path().string());
  }
  return variables;
}

/// Whether a text has the parts of a content as Python writes a list: then the template knows
/// strings alone.
bool writes_parts(const std::string& text, std::span<const ChatMessage> messages) {
  return std::ranges::any_of(messages, [&](const ChatMessage& message) {
    const JinjaValue* content = message.value.find("content");
    return content && content->is_sequence() && text.find(text_of(*content, 0)) != text.npos;
  });
}

bool has_parts(std::span<const ChatMessage> messages) {
  return std::ranges::any_of(messages, [](const ChatMessage& message) {
    const JinjaValue* content = message.value.find("content");
    return content && content->is_sequence();
  });
}

}  // namespace

void check_all_weigh(const Conversation& conversation) {
  if (!std::ranges::all_of(chat_messages(conversation.messages), &ChatMessage::weighs))
    throw Error(ErrorKind::data,
                "a message has \"weight\": 0, but all of a text is trained; data.loss_on = "
                "\"response\" leaves it out of the loss");
}

std::optional<fs::path> chat_template_file(const std::string& tokenizer) {
  if (!tokenizer.ends_with(".json")) return std::nullopt;
  fs::path path = fs::path(tokenizer).parent_path() / kChatTemplateFile;
  return file_exists(path) ? std::optional(std::move(path)) : std::nullopt;
}

bool chat_template_reads_date(const std::string& tokenizer) {
  if (!tokenizer.ends_with(".json")) return false;
  const TokenizerConfig config(fs::path(tokenizer).parent_path());
  return source_beside(tokenizer, config).text.value_or("").find("strftime_now") !=
         std::string::npos;
}

ChatTemplate ChatTemplate::of_tokenizer(const std::string& tokenizer, const std::string& date) {
  if (!tokenizer.ends_with(".json"))
    fail_at(tokenizer,
            "\"messages\" need the chat template of a model, which lies beside a tokenizer.json");
  const TokenizerConfig config(fs::path(tokenizer).parent_path());
  const auto [source, name] = source_beside(tokenizer, config);
  if (!source)
    fail_at(tokenizer,
            fmt::format("no chat template for \"messages\": there is no {} beside it, and "
                        "no \"{}\" in {}",
                        kChatTemplateFile, kTemplate, kTokenizerConfigFile));
  if (source->size() > kMaxTemplateBytes || !is_valid_utf8(*source))
    fail_at(name, fmt::format("no text in UTF-8 of at most {} bytes", kMaxTemplateBytes));
  JinjaVariables variables = special_tokens(config);
  variables.now = begin_of_day(date.empty() ? today() : date);
  try {
    return {name, JinjaTemplate(*source), std::move(variables)};
  } catch (const Error& error) {
    fail_at(name, error.what());
  }
}

void ChatTemplate::fail(std::string_view why) const {
  fail_at(name_, why);
}

JinjaOutput ChatTemplate::render(std::span<const ChatMessage> messages, const JinjaVariables& given,
                                 Prompt prompt) const {
  JinjaVariables variables = given;
  JinjaList list;
  for (const ChatMessage& message : messages) list.push_back(message.value);
  variables.values["messages"] = JinjaValue::list(std::move(list));
  variables.values["add_generation_prompt"] = prompt == Prompt::for_answer;
  try {
    return template_.render(variables);
  } catch (const Error& error) {
    fail(error.what());
  }
}

ChatTemplate::Rendering ChatTemplate::render(const Conversation& conversation,
                                             Prompt prompt) const {
  Rendering made{.messages = chat_messages(conversation.messages), .variables = variables_};
  for (const auto& [name, value] : conversation.variables.items())
    made.variables.values[name] = JinjaValue::of(value);
  made.variables.values["tools"] = JinjaValue::of(conversation.tools);
  made.variables.values["documents"] = JinjaValue::of(conversation.documents);
  try {
    made.output = render(made.messages, made.variables, prompt);
    if (!writes_parts(made.output.text, made.messages)) return made;
  } catch (const Error&) {
    if (!has_parts(made.messages)) throw;
  }
  made.messages = with_plain_contents(std::move(made.messages));
  made.output = render(made.messages, made.variables, prompt);
  return made;
}

std::string ChatTemplate::prompt_of(const Conversation& conversation) const {
  return render(conversation, Prompt::for_answer).output.text;
}

std::string ChatTemplate::text_of(const Conversation& conversation) const {
  return render(conversation, Prompt::none).output.text;
}

}  // namespace troupe::stages
