#include "launch/commands/models/generate_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "launch/commands/models/generation.h"
#include "launch/commands/models/inference.h"
#include "launch/commands/options.h"
#include "launch/host/console.h"
#include "launch/host/progress_line.h"
#include "launch/host/quantities.h"
#include "stages/corpus/chat/chat_template.h"
#include "stages/corpus/text/file_kind.h"
#include "stages/corpus/text/marks.h"
#include "stages/files/checkpoint/checkpoint.h"
#include "stages/files/checkpoint/end_tokens.h"
#include "stages/inference/completions.h"
#include "stages/storage/input_file.h"
#include "tensor/errors/error.h"

namespace troupe::launch {
namespace {

/// Texts of `prompt` tokens and those that are drawn; the last one is never computed with.
std::int64_t positions_of(std::int64_t prompt, std::int64_t tokens) {
  return prompt + tokens - 1;
}

/// What to ask for so that a text has at most so many positions.
std::string advice(std::int64_t prompt, std::int64_t positions) {
  if (prompt > positions) return fmt::format("use prompts of at most {} tokens", positions);
  return fmt::format("use at most --tokens {}", positions - prompt + 1);
}

/// Bytes of the keys and values of one token.
std::int64_t token_bytes(const stages::ModelConfig& model) {
  return 2 * model.num_hidden_layers * model.num_key_value_heads * model.head_dim *
         static_cast<std::int64_t>(size_of(model.dtype));
}

/// A table of positions ends, where a rotary embedding has angles for all, and so does the memory.
void check_room(const stages::ModelConfig& model, std::int64_t prompt, std::int64_t tokens,
                std::int64_t memory_bytes) {
  const std::int64_t positions = positions_of(prompt, tokens);
  const auto lacks_room = [&](const std::string& lacks, std::int64_t most) {
    refuse(fmt::format("a prompt of {} tokens and --tokens {} need {}; {}", prompt, tokens, lacks,
                       advice(prompt, most)));
  };
  if (stages::traits_of(model.kind).learns_positions && positions > model.max_position_embeddings)
    lacks_room(fmt::format("{} positions, but the model's table has {}", positions,
                           model.max_position_embeddings),
               model.max_position_embeddings);
  if (const std::int64_t most = memory_bytes / token_bytes(model); positions > most)
    lacks_room(fmt::format("{} for keys and values, but there are {}",
                           bytes_text(positions * token_bytes(model)), bytes_text(memory_bytes)),
               most);
}

/// As many prompts as a cache of a gibibyte has room for, at least one and 64 at most: more share
/// the reading of weights no better.
std::int64_t sequences_of(const stages::ModelConfig& model, std::size_t prompts,
                          std::int64_t capacity) {
  constexpr std::int64_t kMostBytes = std::int64_t{1} << 30, kMostPrompts = 64;
  const std::int64_t room = kMostBytes / (capacity * token_bytes(model));
  return std::min(std::clamp<std::int64_t>(room, 1, kMostPrompts),
                  static_cast<std::int64_t>(prompts));
}

/// The rows of a pass over prompts, for equal passes over the largest batch.
std::int64_t prompt_rows(const std::vector<std::vector<std::int32_t>>& prompts,
                         std::int64_t sequences) {
  constexpr std::int64_t kMostRows = 512;  // enough to use what is read of a weight often
  const auto batch = static_cast<std::size_t>(sequences);
  std::int64_t largest = 0;
  for (std::size_t first = 0; first < prompts.size(); first += batch) {
    std::int64_t tokens = 0;
    for (std::size_t i = first; i < std::min(prompts.size(), first + batch); ++i)
      tokens += static_cast<std::int64_t>(prompts[i].size());
    largest = std::max(largest, tokens);
  }
  const std::int64_t passes = (largest + kMostRows - 1) / kMostRows;
  return (largest + passes - 1) / passes;
}

constexpr std::uint64_t kMostPromptBytes = std::uint64_t{1} << 30;

/// --prompt, or the lines of --prompt-file, which must be text, and of which the marks of Windows
/// at the begin of a file and at the ends of lines are no part.
std::vector<std::string> prompt_texts(const GenerateOptions& options) {
  if (options.prompt_file.empty()) return {options.prompt};
  if (stages::file_kind(options.prompt_file) != stages::FileKind::text)
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
  const nlohmann::ordered_json message{{"role", "user"}, {"content", stages::valid_utf8(text)}};
  return tokenizer.encode(chat.prompt_of({.messages = nlohmann::ordered_json::array({message})}));
}

/// What a prompt begins with: what the options say, or else as the model was trained.
std::vector<std::int32_t> begin_of_prompt(const GenerateOptions& options,
                                          const stages::CheckpointInfo& info,
                                          const stages::Tokenizer& tokenizer) {
  const stages::Training training = info.training.value_or(stages::Training{});
  const stages::TextRules rules{.bos = options.bos.value_or(training.bos)};
  return stages::marks_of(tokenizer, rules, stages::Documents::packed).prompts.before;
}

std::vector<std::vector<std::int32_t>> encoded(const std::vector<std::string>& texts, bool as_chat,
                                               std::span<const std::int32_t> begin,
                                               const stages::Tokenizer& tokenizer) {
  std::optional<stages::ChatTemplate> chat;
  if (as_chat) chat = stages::ChatTemplate::of_tokenizer(tokenizer.name());
  std::vector<std::vector<std::int32_t>> prompts;
  for (const std::string& text : texts) {
    prompts.push_back(chat ? encoded_chat(text, *chat, tokenizer)
                           : tokenizer.encode_prompt(text, begin));
    if (prompts.back().empty())
      refuse(fmt::format("prompt {} has no token; a text must begin with one", prompts.size()));
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

/// Tells how shards sum few tokens, where it is not what any device does. Returns its name.
const char* tell_sums(const transport::MadeOneShot& sums) {
  if (sums.norm)
    print_error(fmt::format("shards sum up to {} of tokens by one kernel in each other's memory",
                            bytes_text(tensor::kMostOneShotBytes)));
  if (!sums.fault.empty())
    print_error("shards sum by collectives through host memory: " + sums.fault);
  return sums.norm ? "one-shot" : "collectives";
}

/// Completes all prompts, and prints what comes of them; as JSON, with what else there is to tell.
void write_texts(const GenerateOptions& options, const std::vector<std::string>& texts,
                 const std::vector<std::vector<std::int32_t>>& prompts, std::int64_t sequences,
                 stages::Completions& complete, nlohmann::json told) {
  nlohmann::json outputs = nlohmann::json::array();
  for (std::size_t first = 0; first < prompts.size();) {
    const std::size_t count = std::min(prompts.size() - first, static_cast<std::size_t>(sequences));
    const auto completions = complete(std::span(prompts).subspan(first, count), first);
    for (std::size_t i = 0; i < count; ++i, ++first) {
      if (options.json)
        outputs.push_back(json_of(texts[first], prompts[first], completions[i]));
      else
        print((options.chat ? "" : stages::valid_utf8(texts[first])) + completions[i].text + "\n");
    }
  }
  if (!options.json) return;
  told["outputs"] = std::move(outputs);
  told["prefill_tokens_per_s"] = complete.prefill().per_second();
  told["decode_tokens_per_s"] = complete.decode().per_second();
  print(told.dump() + "\n");
}

}  // namespace

stages::GeneratorSpec plan_generation(const GenerateOptions& options,
                                      const stages::ModelConfig& model,
                                      const std::vector<std::vector<std::int32_t>>& prompts,
                                      std::int64_t memory_bytes) {
  TROUPE_ASSERT(!prompts.empty());
  if (model.value_head)
    throw Error(ErrorKind::data,
                "the model has a value head, which gives a number for each token; only one with a "
                "head over the vocabulary writes text");
  if (const std::string why = check_parts(model, options.pp, options.tp); !why.empty()) refuse(why);
  stages::GeneratorSpec spec{.model = model, .part = leading_part(options.pp, options.tp)};
  std::int64_t longest = 0;
  for (const auto& prompt : prompts)
    longest = std::max(longest, static_cast<std::int64_t>(prompt.size()));
  check_room(model, longest, options.tokens, memory_bytes);
  spec.capacity = positions_of(longest, options.tokens);
  spec.sequences = sequences_of(model, prompts.size(), spec.capacity);
  spec.prompt_rows = prompt_rows(prompts, spec.sequences);
  return spec;
}

int run(const GenerateOptions& options) {
  const auto ucx = prepare_ranks(options.pp * options.tp);
  const std::string directory = model_directory(options.checkpoint);
  const auto checkpoint = open_language_model(directory);
  const auto tokenizer = stages::Tokenizer::open(checkpoint->tokenizer());
  const std::vector<std::string> texts = prompt_texts(options);
  const auto prompts = encoded(
      texts, options.chat, begin_of_prompt(options, checkpoint->info(), *tokenizer), *tokenizer);
  const stages::GeneratorSpec spec =
      plan_generation(options, checkpoint->info().model, prompts, this_machine().memory_bytes);

  LeadingRank rank(
      {.checkpoint = directory,
       .device = options.device,
       .threads = std::max(1, threads_of(options.threads) / options.tp),
       .pp = options.pp,
       .tp = options.tp},
      ucx, kGeneration,
      GenerationWork{
          .sequences = spec.sequences, .capacity = spec.capacity, .prompt_rows = spec.prompt_rows});
  rank.run([&] {
    const auto generator =
        make_generator(spec, rank.own(), rank.join(messages_of(spec)), *checkpoint,
                       options.json ? nullptr : progress_line("loading weights,"));
    nlohmann::json told;
    if (options.tp > 1) told["shard_sums"] = tell_sums(rank.own().one_shot());
    LeadingModel model(rank, *generator);
    stages::Completions complete(
        model, *tokenizer, options.sampling,
        {.tokens = options.tokens, .ends = stages::end_tokens(directory), .stops = options.stops});
    write_texts(options, texts, prompts, spec.sequences, complete, std::move(told));
  });
  return 0;
}

}  // namespace troupe::launch
