#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "actors/worker/step/step_tokens.h"
#include "launch/commands/models/model_ranks.h"
#include "stages/corpus/token_data.h"
#include "stages/files/checkpoint/checkpoint.h"

// What the ranks of `eval` do alike.

namespace troupe::launch {

inline constexpr const char* kEvaluation = "evaluation";

/// The samples of an evaluation.
struct EvaluationWork {
  std::string tokens;  ///< the token file
  std::string name;    ///< of the text, in messages
  stages::Documents documents = stages::Documents::joined;
  std::int64_t seq_len = 0;
  std::int64_t samples = 0;  ///< of the text, those beyond the steps too
  std::int64_t micro = 1;    ///< samples of a step
  std::int64_t steps = 1;

  /// The samples of a step, `micro` of them.
  std::unique_ptr<stages::DataFeed> feed(const stages::ModelConfig& model) const;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(EvaluationWork, tokens, name, documents, seq_len, samples, micro,
                                   steps)

/// Computes every step on this rank. `links` makes the connections once it is known what stages
/// send each other. `on_step` is told of each step's loss, which only the leading rank has, and its
/// tokens.
void evaluate_part(OwnRank& rank, const EvaluationWork& work,
                   const stages::CheckpointReader& checkpoint,
                   const std::function<stages::PartLinks(const actors::StageMessages&)>& links,
                   const stages::Progress& progress,
                   const std::function<void(std::int64_t step, double loss,
                                            const actors::StepTokens& tokens)>& on_step);

/// Another rank than the leading one: computes its part.
void follow_evaluation(OwnRank& rank, const EvaluationWork& work);

}  // namespace troupe::launch
