#include "launch/commands/models/generation_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "launch/host/quantities.h"
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
  const auto refuse = [&](const std::string& lacks, std::int64_t most) {
    throw Error(ErrorKind::usage, fmt::format("a prompt of {} tokens and --tokens {} need {}; {}",
                                              prompt, tokens, lacks, advice(prompt, most)));
  };
  if (stages::traits_of(model.kind).learns_positions && positions > model.max_position_embeddings)
    refuse(fmt::format("{} positions, but the model's table has {}", positions,
                       model.max_position_embeddings),
           model.max_position_embeddings);
  if (const std::int64_t most = memory_bytes / token_bytes(model); positions > most)
    refuse(fmt::format("{} for keys and values, but there are {}",
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
  if (options.device == "cuda" && options.tp * options.pp > 1)
    throw Error(ErrorKind::usage,
                "--tp and --pp divide a model among threads of the CPU; on a GPU it is whole");
  stages::GeneratorSpec spec{.model = model, .tp = options.tp, .pp = options.pp};
  if (const std::string why = check_generator(spec); !why.empty())
    throw Error(ErrorKind::usage, why);
  std::int64_t longest = 0;
  for (const auto& prompt : prompts)
    longest = std::max(longest, static_cast<std::int64_t>(prompt.size()));
  check_room(model, longest, options.tokens, memory_bytes);
  spec.capacity = positions_of(longest, options.tokens);
  spec.sequences = sequences_of(model, prompts.size(), spec.capacity);
  spec.prompt_rows = prompt_rows(prompts, spec.sequences);
  return spec;
}

}  // namespace troupe::launch
