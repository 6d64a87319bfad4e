#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "launch/commands/models/generation_plan.h"
#include "launch/commands/models/inference.h"
#include "launch/commands/options.h"
#include "launch/host/console.h"
#include "launch/host/progress_line.h"
#include "stages/corpus/chat/chat_template.h"
#include "stages/corpus/text/file_kind.h"
#include "stages/files/checkpoint/checkpoint.h"
#include "stages/files/checkpoint/end_tokens.h"
#include "stages/inference/completions.h"
#include "stages/storage/input_file.h"
#include "tensor/errors/error.h"

namespace troupe::launch {
namespace {

constexpr std::uint64_t kMostPromptBytes = std::uint64_t{1} << 30;

/// --prompt, or the lines of --prompt-file, which must be text, and of which the marks of Windows
/// at the begin of a file and at the ends of lines are no part.
std::vector<std::string> prompt_texts(const GenerateOptions& options) {
  if (options.prompt_file.empty()) return {options.prompt};
  if (stages::file_kind(options.prompt_file) == stages::FileKind::json_lines)
    throw Error(ErrorKind::data,
                fmt::format("{}: lines of JSON, but each line would be a prompt as it is; jq -r "
                            ".prompt {} makes lines of text",
                            options.prompt_file, options.prompt_file));
  std::string file = stages::read_whole_file(options.prompt_file, kMostPromptBytes);
  if (file.starts_with("\xef\xbb\xbf")) file.erase(0, 3);
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin < file.size();) {
    const std::size_t end = std::min(file.find('\n', begin), file.size());
    lines.push_back(file.substr(begin, end - begin));
    if (lines.back().ends_with('\r')) lines.back().pop_back();
    begin = end + 1;
  }
  if (lines.empty())
    throw Error(ErrorKind::data, fmt::format("{} holds no prompt", options.prompt_file));
  return lines;
}

/// What a user says, as a model of conversations is asked to answer it. The template writes special
/// tokens itself.
std::vector<std::int32_t> encoded_chat(const std::string& text, const stages::ChatTemplate& chat,
                                       const stages::Tokenizer& tokenizer) {
  const nlohmann::json message{{"role", "user"}, {"content", stages::valid_utf8(text)}};
  return tokenizer.encode(chat.prompt_of(nlohmann::json::array({message})));
}

std::vector<std::vector<std::int32_t>> encoded(const std::vector<std::string>& texts, bool as_chat,
                                               const stages::Tokenizer& tokenizer) {
  std::optional<stages::ChatTemplate> chat;
  if (as_chat) chat = stages::ChatTemplate::of_tokenizer(tokenizer.name());
  std::vector<std::vector<std::int32_t>> prompts;
  for (const std::string& text : texts) {
    prompts.push_back(chat ? encoded_chat(text, *chat, tokenizer) : tokenizer.encode_prompt(text));
    if (prompts.back().empty())
      throw Error(
          ErrorKind::usage,
          fmt::format("prompt {} has no token; a text must begin with one", prompts.size()));
  }
  return prompts;
}

nlohmann::json json_of(const std::string& prompt, const std::vector<std::int32_t>& prompt_ids,
                       const stages::Completion& completion) {
  const bool stopped = completion.finish == stages::Completion::Finish::stop;
  return {{"prompt", stages::valid_utf8(prompt)},
          {"prompt_ids", prompt_ids},
          {"ids", completion.ids},
          {"text", completion.text},
          {"finish", stopped ? "stop" : "length"}};
}

}  // namespace

int run(const GenerateOptions& options) {
  const std::string directory = model_directory(options.checkpoint);
  const auto checkpoint = open_language_model(directory);
  const auto tokenizer = stages::Tokenizer::open(checkpoint->tokenizer());
  const std::vector<std::string> texts = prompt_texts(options);
  const auto prompts = encoded(texts, options.chat, *tokenizer);
  const stages::GeneratorSpec spec =
      plan_generation(options, checkpoint->info().model, prompts, this_machine().memory_bytes);

  const int threads = threads_of(options.threads);
  stages::Generator generator(
      spec, [&] { return device_for(options.device, std::max(1, threads / options.tp)); });
  generator.load_weights([&](auto parameters, tensor::Device& device) {
    checkpoint->load_weights(parameters, device,
                             options.json ? nullptr : progress_line("loading weights,"));
  });
  stages::Completions complete(
      generator, *tokenizer,
      {.temperature = options.temperature,
       .top_k = options.top_k,
       .top_p = options.top_p,
       .seed = options.seed},
      {.tokens = options.tokens, .ends = stages::end_tokens(directory), .stops = options.stops});
  nlohmann::json outputs = nlohmann::json::array();
  for (std::size_t first = 0; first < prompts.size();) {
    const std::size_t count =
        std::min(prompts.size() - first, static_cast<std::size_t>(spec.sequences));
    const auto completions = complete(std::span(prompts).subspan(first, count), first);
    for (std::size_t i = 0; i < count; ++i, ++first) {
      if (options.json)
        outputs.push_back(json_of(texts[first], prompts[first], completions[i]));
      else
        print((options.chat ? "" : stages::valid_utf8(texts[first])) + completions[i].text + "\n");
    }
  }
  if (options.json)
    print(nlohmann::json{{"outputs", outputs},
                         {"prefill_tokens_per_s", complete.prefill().per_second()},
                         {"decode_tokens_per_s", complete.decode().per_second()}}
              .dump() +
          "\n");
  return 0;
}

}  // namespace troupe::launch
