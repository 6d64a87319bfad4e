#include "stages/corpus/text/record.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "stages/corpus/text/json_line.h"
#include "tensor/errors/error.h"

namespace troupe::stages {
namespace {

using nlohmann::ordered_json;

/// Variables of the template, as {"enable_thinking": false}.
constexpr const char* kTemplateVariables = "chat_template_kwargs";
/// Members that are read beside those that TextRules::fields maps.
constexpr std::array<const char*, 4> kBeside{"tools", "documents", "weight", kTemplateVariables};

[[noreturn]] void fail(const std::string& why) {
  throw Error(ErrorKind::data, why);
}

/// A member; null if there is none.
const ordered_json& member(const ordered_json& object, const char* name) {
  static const ordered_json kNull;
  const auto found = object.find(name);
  return found == object.end() ? kNull : *found;
}

const std::string* string_in(const ordered_json& object, const char* name) {
  return member(object, name).get_ptr<const ordered_json::string_t*>();
}

bool has(const ordered_json& object, const char* name) {
  return !member(object, name).is_null();
}

/// The string of a member; empty if it is missing or null.
std::string text_of(const ordered_json& object, const char* name) {
  const ordered_json& value = member(object, name);
  if (value.is_null()) return "";
  if (!value.is_string()) fail(fmt::format("\"{}\" is no string", name));
  return value.get<std::string>();
}

ordered_json message(const char* role, std::string content) {
  return {{"role", role}, {"content", std::move(content)}};
}

/// A list, which others may give as a text of JSON; null if it is missing.
ordered_json list_in(const ordered_json& object, const char* name) {
  const ordered_json& value = member(object, name);
  if (value.is_null()) return nullptr;
  const ordered_json list =
      value.is_string() ? parse_json_line(value.get_ref<const std::string&>()) : value;
  if (!list.is_array()) fail(fmt::format("\"{}\" is no list", name));
  return list;
}

Conversation conversation(const ordered_json& object, ordered_json messages) {
  Conversation whole{.messages = std::move(messages),
                     .tools = list_in(object, "tools"),
                     .documents = list_in(object, "documents")};
  if (const ordered_json& variables = member(object, kTemplateVariables); !variables.is_null()) {
    if (!variables.is_object()) fail(fmt::format("\"{}\" is no object", kTemplateVariables));
    whole.variables = variables;
  }
  return whole;
}

/// Messages that begin with what is beside them as "system".
ordered_json with_system(const ordered_json& object) {
  ordered_json messages = ordered_json::array();
  if (has(object, "system") && !text_of(object, "system").empty())
    messages.push_back(message("system", text_of(object, "system")));
  return messages;
}

/// What a conversation of one question is: earlier ones in "history", and the last one, which is an
/// instruction with what it is about.
Conversation instructed(const ordered_json& object, const char* about, const char* answer) {
  ordered_json messages = with_system(object);
  for (const ordered_json& turn : list_in(object, "history")) {
    if (!turn.is_array() || turn.size() != 2 || !turn[0].is_string() || !turn[1].is_string())
      fail("\"history\" is no list of pairs of strings");
    messages.push_back(message("user", turn[0]));
    messages.push_back(message("assistant", turn[1]));
  }
  std::string question = text_of(object, "instruction");
  if (const std::string input = text_of(object, about); !input.empty()) question += "\n" + input;
  messages.push_back(message("user", std::move(question)));
  messages.push_back(message("assistant", text_of(object, answer)));
  return conversation(object, std::move(messages));
}

/// What others call those who speak in conversations.
constexpr auto kSpeakers =
    std::to_array<std::pair<std::string_view, const char*>>({{"human", "user"},
                                                             {"user", "user"},
                                                             {"gpt", "assistant"},
                                                             {"assistant", "assistant"},
                                                             {"chatgpt", "assistant"},
                                                             {"bing", "assistant"},
                                                             {"bard", "assistant"},
                                                             {"model", "assistant"},
                                                             {"system", "system"},
                                                             {"tool", "tool"},
                                                             {"observation", "tool"},
                                                             {"function_response", "tool"},
                                                             {"function_call", "assistant"}});

/// A message of ShareGPT's form, {"from": "human", "value": "..."}, as others have it.
ordered_json shared_message(const ordered_json& turn, std::size_t i) {
  if (!turn.is_object()) fail(fmt::format("message {} is no object", i + 1));
  if (turn.contains("role")) return turn;
  const std::string from = text_of(turn, "from");
  const auto* const known =
      std::ranges::find(kSpeakers, from, &std::pair<std::string_view, const char*>::first);
  if (known == kSpeakers.end())
    fail(
        fmt::format("message {} is from \"{}\", who is none of human, gpt, system, tool, "
                    "observation, function_call",
                    i + 1, from));
  ordered_json out = message(known->second, text_of(turn, "value"));
  if (from == "function_call") {
    out["content"] = nullptr;
    out["tool_calls"] = ordered_json::array(
        {{{"type", "function"}, {"function", parse_json_line(text_of(turn, "value"))}}});
  }
  if (has(turn, "weight")) out["weight"] = turn["weight"];
  return out;
}

Conversation shared(const ordered_json& object) {
  ordered_json messages = with_system(object);
  const ordered_json turns = list_in(object, "conversations");
  for (std::size_t i = 0; i < turns.size(); ++i) messages.push_back(shared_message(turns[i], i));
  return conversation(object, std::move(messages));
}

/// A prompt and a completion that are messages each: what the prompt holds is read.
Conversation prompted(const ordered_json& object, LossOn loss_on) {
  ordered_json messages = member(object, "prompt");
  if (loss_on == LossOn::response)
    for (ordered_json& one : messages)
      if (one.is_object()) one["weight"] = 0;
  for (const ordered_json& one : member(object, "completion")) messages.push_back(one);
  return conversation(object, std::move(messages));
}

/// The object with the members that the fields map, by the names that are known here.
ordered_json mapped(const ordered_json& object, const std::map<std::string, std::string>& fields) {
  ordered_json out = ordered_json::object();
  for (const char* name : kBeside)
    if (has(object, name)) out[name] = object.at(name);
  for (const auto& [name, theirs] : fields) {
    const bool may_lack = name == "input" || name == "system" || name == "tools";
    if (!may_lack && !has(object, theirs.c_str()))
      fail(fmt::format("has no \"{}\", which data.fields names as {}", theirs, name));
    out[name] = member(object, theirs.c_str());
  }
  return out;
}

/// A weight beside a "response" would be one of the whole line.
void check_weighs(const ordered_json& object) {
  const ordered_json& weight = member(object, "weight");
  if (!weight.is_null() && weight != 1)
    fail(
        fmt::format("has the \"weight\" {} beside what it trains, which is not supported: only an "
                    "object of \"messages\" may have one, 0 or 1",
                    weight.dump()));
}

void refuse_other_data(const ordered_json& object) {
  if (has(object, "chosen") && has(object, "rejected"))
    fail(
        "is of a preference set (\"chosen\", \"rejected\"), which is not supported: texts, "
        "prompts with responses and conversations are trained");
  for (const char* name : {"image", "images"})
    if (has(object, name)) fail(fmt::format("has \"{}\", and only text is read", name));
}

/// A record in which prompts are told apart; none if there are none of its members.
std::optional<Record> with_prompt(const ordered_json& object, LossOn loss_on) {
  if (has(object, "messages"))
    return Record{"messages", conversation(object, member(object, "messages"))};
  if (has(object, "conversations")) return Record{"ShareGPT (conversations)", shared(object)};
  if (string_in(object, "instruction") && string_in(object, "output"))
    return Record{"alpaca (instruction, input, output)", instructed(object, "input", "output")};
  if (string_in(object, "instruction") && string_in(object, "response"))
    return Record{"dolly (instruction, context, response)",
                  instructed(object, "context", "response")};
  if (member(object, "prompt").is_array() && member(object, "completion").is_array())
    return Record{"messages of prompt and completion", prompted(object, loss_on)};
  const std::string* prompt = string_in(object, "prompt");
  for (const auto& [name, layout] : {std::pair("response", "prompt and response"),
                                     std::pair("completion", "prompt and completion")})
    if (const std::string* response = string_in(object, name); prompt && response)
      return Record{layout, PromptedText{*prompt, *response}};
  return std::nullopt;
}

std::string members_of(const ordered_json& object) {
  constexpr std::size_t kMost = 8;
  std::string names;
  std::size_t count = 0;
  for (const auto& [name, value] : object.items()) {
    if (++count > kMost) return names + ", ...";
    names += (names.empty() ? "" : ", ") + ordered_json(name.substr(0, 40)).dump();
  }
  return names.empty() ? "none" : names;
}

[[noreturn]] void fail_unknown(const std::string& found, LossOn loss_on) {
  fail(
      fmt::format("expected a JSON object with {}the strings \"prompt\" and \"response\", a list "
                  "\"messages\", or the members of alpaca, dolly or ShareGPT; {}",
                  loss_on == LossOn::all ? "a string \"text\", " : "", found));
}

}  // namespace

Record record_of(const ordered_json& given, LossOn loss_on, const TextRules& rules) {
  if (!given.is_object()) fail_unknown("it is none", loss_on);
  const ordered_json object = rules.fields.empty() ? given : mapped(given, rules.fields);
  const std::string* text = string_in(object, "text");
  if (text && loss_on == LossOn::all) return {.layout = "text", .content = *text};
  refuse_other_data(object);
  check_weighs(object);
  if (auto record = with_prompt(object, loss_on)) return *std::move(record);
  if (loss_on == LossOn::all)
    for (const char* name : {"content", "raw_content"})
      if (const std::string* whole = string_in(object, name))
        return {.layout = name, .content = *whole};
  fail_unknown(
      fmt::format("its members are {}, and data.fields says which is what", members_of(given)),
      loss_on);
}

}  // namespace troupe::stages
