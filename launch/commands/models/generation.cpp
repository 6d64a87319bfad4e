#include "launch/commands/models/generation.h"

#include <span>
#include <vector>

#include "launch/commands/models/inference.h"

namespace troupe::launch {
namespace {

using Prompts = std::vector<std::vector<std::int32_t>>;
using Tokens = std::vector<std::int32_t>;

// Orders of the leading rank.
constexpr const char* kPrompts = "prompts";
constexpr const char* kTokens = "tokens";

}  // namespace

actors::StageMessages messages_of(const stages::GeneratorSpec& spec) {
  const std::int64_t channels = spec.model.hidden_size;
  actors::StageMessages messages{.shapes = {{spec.prompt_rows, channels}},
                                 .dtype = spec.model.dtype};
  if (spec.sequences != spec.prompt_rows) messages.shapes.push_back({spec.sequences, channels});
  return messages;
}

std::unique_ptr<stages::Generator> make_generator(const stages::GeneratorSpec& spec, OwnRank& rank,
                                                  stages::PartLinks links,
                                                  const stages::CheckpointReader& checkpoint,
                                                  const stages::Progress& progress) {
  links.one_shot = rank.one_shot().norm.get();
  auto generator = std::make_unique<stages::Generator>(spec, rank.device(), links);
  generator->load_weights([&](auto parameters, tensor::Device& device) {
    checkpoint.load_weights(parameters, device, progress, rank.spec().threads);
  });
  return generator;
}

std::span<const float> LeadingModel::prefill(std::span<const std::vector<std::int32_t>> prompts) {
  rank_.tell({{kPrompts, Prompts(prompts.begin(), prompts.end())}});
  return own_.prefill(prompts);
}

std::span<const float> LeadingModel::decode(std::span<const std::int32_t> tokens) {
  rank_.tell({{kTokens, Tokens(tokens.begin(), tokens.end())}});
  return own_.decode(tokens);
}

void follow_generation(OwnRank& rank, const GenerationWork& work, MessageSocket& leader) {
  const auto checkpoint = open_language_model(rank.spec().checkpoint);
  const stages::GeneratorSpec spec{.model = checkpoint->info().model,
                                   .part = rank.part(),
                                   .sequences = work.sequences,
                                   .capacity = work.capacity,
                                   .prompt_rows = work.prompt_rows};
  const auto generator = make_generator(spec, rank, rank.join(messages_of(spec)), *checkpoint);
  while (const auto order = leader.read()) {
    if (order->contains(kPrompts))
      generator->prefill(order->at(kPrompts).get<Prompts>());
    else
      generator->decode(order->at(kTokens).get<Tokens>());
  }
}

}  // namespace troupe::launch
