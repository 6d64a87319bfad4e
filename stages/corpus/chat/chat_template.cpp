#include "stages/corpus/chat/chat_template.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>

#include "stages/corpus/chat/jinja_values.h"
#include "stages/corpus/tokenizers/text/utf8.h"
#include "stages/corpus/tokenizers/tokenizer_config.h"
#include "stages/storage/input_file.h"
#include "tensor/errors/error.h"

namespace troupe::stages {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr const char* kTemplate = "chat_template";
/// Members under which transformers copies a message's reasoning from one to the others.
constexpr std::array<const char*, 3> kReasoning{"reasoning_content", "thinking", "reasoning"};
/// Limit of a template, far above any in use.
constexpr std::size_t kMaxTemplateBytes = 1'000'000;

[[noreturn]] void fail(const std::string& place, std::string_view why) {
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

/// A class of transformers that is not named after a model has no special tokens of its own.
bool has_own_tokens(const TokenizerConfig& config) {
  const json name = config.member("tokenizer_class");
  return name != "PreTrainedTokenizerFast" && name != "TokenizersBackend";
}

JinjaVariables special_tokens(const TokenizerConfig& config) {
  JinjaVariables variables;
  for (const char* name : kSpecialTokens) {
    if (const auto token = config.token(name))
      variables.values[name] = jinja_value(*token);
    else if (!config.has_token(name) && has_own_tokens(config))
      variables.refused[name] = fmt::format("is missing in {}", config.path().string());
  }
  variables.values["tools"] = variables.values["documents"] = jinja_value(nullptr);
  return variables;
}

/// The messages as transformers hands them to a template: without members that are null.
json checked(const json& messages) {
  const auto refuse = [](std::size_t i, std::string_view why) {
    throw Error(ErrorKind::data, fmt::format("message {} {}", i + 1, why));
  };
  if (!messages.is_array() || messages.empty())
    throw Error(ErrorKind::data,
                "\"messages\" must be a list of at least one object with a \"role\" and a "
                "\"content\"");
  json whole = json::array();
  for (std::size_t i = 0; i < messages.size(); ++i) {
    if (!messages[i].is_object()) refuse(i, "is no object");
    for (const char* member : {"role", "content"})
      if (!messages[i].value(member, json()).is_string())
        refuse(i, fmt::format("has no string \"{}\"", member));
    for (const char* member : kReasoning)
      if (!messages[i].value(member, json()).is_null())
        refuse(i, fmt::format("has a member \"{}\", which is not supported", member));
    if (const json weight = messages[i].value("weight", json());
        !weight.is_null() && weight != 0 && weight != 1)
      refuse(i, fmt::format("has the \"weight\" {}; it must be 0 or 1", weight.dump()));
    json message = json::object();
    for (const auto& [name, value] : messages[i].items())
      if (!value.is_null()) message[name] = value;
    whole.push_back(std::move(message));
  }
  return whole;
}

/// Whether a message is trained where messages of its role are.
bool weighs(const json& message) {
  return message.value("weight", json(1)) != 0;
}

/// The same of each message of the assistant.
std::vector<bool> weights_of(const json& messages) {
  std::vector<bool> all;
  for (const json& message : messages)
    if (message["role"] == "assistant") all.push_back(weighs(message));
  return all;
}

}  // namespace

void check_all_weigh(const json& given) {
  const json messages = checked(given);
  if (!std::ranges::all_of(messages, weighs))
    throw Error(ErrorKind::data,
                "a message has \"weight\": 0, but all of a text is trained; data.loss_on = "
                "\"response\" leaves it out of the loss");
}

std::optional<fs::path> chat_template_file(const std::string& tokenizer) {
  if (!tokenizer.ends_with(".json")) return std::nullopt;
  fs::path path = fs::path(tokenizer).parent_path() / kChatTemplateFile;
  return file_exists(path) ? std::optional(std::move(path)) : std::nullopt;
}

ChatTemplate ChatTemplate::of_tokenizer(const std::string& tokenizer) {
  if (!tokenizer.ends_with(".json"))
    fail(tokenizer,
         "\"messages\" need the chat template of a model, which lies beside a tokenizer.json");
  const TokenizerConfig config(fs::path(tokenizer).parent_path());
  std::optional<std::string> source = template_in(config);
  std::string name = fmt::format("{}: {}", config.path().string(), kTemplate);
  if (const auto jinja = chat_template_file(tokenizer)) {
    source = read_whole_file(*jinja, kMaxTemplateBytes);
    name = jinja->string();
  }
  if (!source)
    fail(tokenizer, fmt::format("no chat template for \"messages\": there is no {} beside it, and "
                                "no \"{}\" in {}",
                                kChatTemplateFile, kTemplate, kTokenizerConfigFile));
  if (source->size() > kMaxTemplateBytes || !is_valid_utf8(*source))
    fail(name, fmt::format("no text in UTF-8 of at most {} bytes", kMaxTemplateBytes));
  JinjaVariables variables = special_tokens(config);
  try {
    return {name, JinjaTemplate(*source), std::move(variables)};
  } catch (const Error& error) {
    fail(name, error.what());
  }
}

JinjaOutput ChatTemplate::render(const json& messages, std::size_t count, Prompt prompt) const {
  JinjaVariables variables = variables_;
  const auto end = messages.begin() + static_cast<std::ptrdiff_t>(count);
  variables.values["messages"] = jinja_value(json(json::array_t(messages.begin(), end)));
  variables.values["add_generation_prompt"] = jinja_value(prompt == Prompt::for_answer);
  try {
    return template_.render(variables);
  } catch (const Error& error) {
    fail(name_, error.what());
  }
}

std::size_t ChatTemplate::length_of_first(const json& messages, std::size_t count, Prompt prompt,
                                          const std::string& whole) const {
  const std::string text = render(messages, count, prompt).text;
  if (!whole.starts_with(text))
    fail(name_, fmt::format("what the assistant says cannot be told: the text of the first {} "
                            "messages{} is not the beginning of that of all",
                            count, prompt == Prompt::none ? "" : " with the prompt for an answer"));
  return text.size();
}

std::string ChatTemplate::prompt_of(const json& given) const {
  const json messages = checked(given);
  return render(messages, messages.size(), Prompt::for_answer).text;
}

std::string ChatTemplate::text_of(const json& given) const {
  const json messages = checked(given);
  return render(messages, messages.size(), Prompt::none).text;
}

ChatText ChatTemplate::parts_of(const json& given) const {
  const json messages = checked(given);
  JinjaOutput whole = render(messages, messages.size(), Prompt::none);
  ChatText chat{.text = std::move(whole.text), .ends = {}};
  const auto add = [&](std::size_t end) {
    if (!chat.ends.empty() && end < chat.ends.back())
      fail(name_, "what the assistant says cannot be told: it overlaps with other text");
    chat.ends.push_back(end);
  };
  if (template_.marks_generated()) {
    const std::vector<bool> weights = weights_of(messages);
    const bool all = std::ranges::all_of(weights, std::identity());
    if (!all && whole.generated.size() != weights.size())
      fail(name_, fmt::format("a message has \"weight\": 0, but what it says cannot be told: {} "
                              "messages of the assistant have {} parts marked as generated",
                              weights.size(), whole.generated.size()));
    for (std::size_t i = 0; i < whole.generated.size(); ++i) {
      if (!all && !weights[i]) continue;
      add(whole.generated[i].begin);
      add(whole.generated[i].end);
    }
    return chat;
  }
  for (std::size_t i = 0; i < messages.size(); ++i) {
    if (messages[i]["role"] != "assistant" || !weighs(messages[i])) continue;
    add(length_of_first(messages, i, Prompt::for_answer, chat.text));
    add(length_of_first(messages, i + 1, Prompt::none, chat.text));
  }
  return chat;
}

}  // namespace troupe::stages
