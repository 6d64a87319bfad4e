#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "stages/inference/inference_stage.h"
#include "stages/inference/language_model.h"
#include "stages/inference/model_part.h"
#include "stages/inference/stage_link.h"
#include "stages/inference/token_rows.h"

namespace troupe::stages {

struct GeneratorSpec {
  ModelConfig model;
  ModelPart part;                ///< of the model, that this generator has; check_parts() holds
  std::int64_t sequences = 1;    ///< most prompts of a batch
  std::int64_t capacity = 0;     ///< most tokens of a prompt and its continuation
  std::int64_t prompt_rows = 1;  ///< tokens of prompts that are computed at once
};

/// What a part reaches the others by.
struct PartLinks {
  tensor::ProcessGroup* shards = nullptr;   ///< of its stage; null: it is the only one
  StageLink* stages = nullptr;              ///< null: its stage is the only one
  tensor::OneShotNorm* one_shot = nullptr;  ///< of the shards; null: their group sums all rows
};

/// A model that writes texts, or one rank's part of it, with a cache of the keys and values of its
/// layers and heads. All ranks make the same calls in the same order; the first shard of the last
/// stage returns the logits, the others nothing. All memory is allocated at construction.
class Generator final : public LanguageModel {
 public:
  /// The device, and what the links are, outlive the generator.
  Generator(const GeneratorSpec& spec, tensor::Device& device, const PartLinks& links = {});
  ~Generator() override;

  /// Calls load(parameters, device), which writes the part's weights. Called before the first
  /// batch.
  using Load = std::function<void(std::span<const Parameter>, tensor::Device&)>;
  void load_weights(const Load& load);

  std::span<const float> prefill(std::span<const std::vector<std::int32_t>> prompts) override;
  std::span<const float> decode(std::span<const std::int32_t> tokens) override;

 private:
  /// The last token of a prompt, in a pass over prompts.
  struct PromptEnd {
    std::int64_t row = 0, sequence = 0;
  };

  /// Makes the tokens of the prompts new_tokens_, checked.
  void take(std::span<const std::vector<std::int32_t>> prompts);
  /// Passes over new_tokens_, which are prompts, or parts of texts.
  void pass_prompts();
  /// Computes all of a text again whose keys in the cache the next token makes ones of a longer
  /// text's, which another list of longrope's factors rotates.
  void cache_again(std::span<const std::int32_t> tokens);
  bool caches_again() const { return spec_.model.rotary.type == tensor::RotaryType::longrope; }
  /// The pass of the rows through the part. What comes of the prompts that end is kept.
  void pass();
  tensor::Tensor stream_of_rows(std::int64_t count) const;
  /// The logits of the batch after `rows` [sequences, C].
  std::span<const float> logits(const tensor::Tensor& rows);
  /// The logits of all shards, by shard: [tp, sequences, V/tp].
  tensor::Tensor gathered_logits();

  const GeneratorSpec spec_;
  tensor::Device& device_;
  const PartLinks links_;
  const tensor::TensorParallelGroups groups_;
  const std::unique_ptr<tensor::Stream> stream_;
  const std::unique_ptr<InferenceStage> stage_;
  TokenRows rows_;
  tensor::Buffer x_memory_, kept_memory_, logits_memory_, gathered_memory_;
  tensor::Buffer all_logits_;          ///< pinned; of the rank that returns them
  tensor::Tensor x_;                   // [most rows, C]  act  the residual stream
  tensor::Tensor kept_;                // [sequences, C]  act  of the prompts' last tokens
  tensor::Tensor logits_;              // [sequences, V/n] f32  of the last stage
  std::vector<std::int32_t> lengths_;  ///< of the batch's sequences so far
  std::vector<std::vector<std::int32_t>> texts_;  ///< the sequences, if caches_again()
  std::vector<NewToken> new_tokens_;
  std::vector<PromptEnd> ends_;
};

}  // namespace troupe::stages
