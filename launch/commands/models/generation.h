#pragma once

#include <memory>
#include <nlohmann/json.hpp>

#include "launch/commands/models/model_ranks.h"
#include "stages/files/checkpoint/checkpoint.h"
#include "stages/inference/generator.h"

// What the ranks of `generate` do alike.

namespace troupe::launch {

inline constexpr const char* kGeneration = "generation";

/// What stages::GeneratorSpec has beside the model and the part.
struct GenerationWork {
  std::int64_t sequences = 1;
  std::int64_t capacity = 0;
  std::int64_t prompt_rows = 1;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(GenerationWork, sequences, capacity, prompt_rows)

/// The tensors that stages send each other.
actors::StageMessages messages_of(const stages::GeneratorSpec& spec);

/// A rank's generator with its weights. `links` are those that its join() gave. `rank` outlives it.
std::unique_ptr<stages::Generator> make_generator(const stages::GeneratorSpec& spec, OwnRank& rank,
                                                  stages::PartLinks links,
                                                  const stages::CheckpointReader& checkpoint,
                                                  const stages::Progress& progress = {});

/// The model as the leading rank has it: what is asked of it, all ranks do.
class LeadingModel final : public stages::LanguageModel {
 public:
  /// Both outlive the object.
  LeadingModel(LeadingRank& rank, stages::Generator& own) : rank_(rank), own_(own) {}
  std::span<const float> prefill(std::span<const std::vector<std::int32_t>> prompts) override;
  std::span<const float> decode(std::span<const std::int32_t> tokens) override;

 private:
  LeadingRank& rank_;
  stages::Generator& own_;
};

/// Another rank: does what the leading one is asked, until there is no more.
void follow_generation(OwnRank& rank, const GenerationWork& work, MessageSocket& leader);

}  // namespace troupe::launch
