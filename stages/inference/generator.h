#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "stages/inference/inference_stage.h"
#include "stages/inference/shard_threads.h"
#include "stages/inference/token_rows.h"

namespace troupe::stages {

struct GeneratorSpec {
  ModelConfig model;
  int tp = 1;                    ///< shards of every stage; more than one on a CPU only
  int pp = 1;                    ///< stages, which have equal numbers of layers as far as may be
  std::int64_t sequences = 1;    ///< most prompts of a batch
  std::int64_t capacity = 0;     ///< most tokens of a prompt and its continuation
  std::int64_t prompt_rows = 1;  ///< tokens of prompts that are computed at once
};

/// Why a generator cannot be made so: an empty string if it can, else one sentence with the nearest
/// valid choice.
std::string check_generator(const GeneratorSpec& spec);

/// The next tokens of a batch of sequences, by a whole model with a cache of keys and values. What
/// is computed for one sequence does not depend on the others but for the last bits of matrix
/// products, whose sums depend on the number of rows.
///
/// In one process: the shards of a stage are threads, stages run one after the other. All memory is
/// allocated at construction.
class Generator {
 public:
  /// Makes a device for a shard.
  using MakeDevice = std::function<std::unique_ptr<tensor::Device>()>;

  Generator(const GeneratorSpec& spec, const MakeDevice& make_device);
  ~Generator();

  /// Calls load(parameters, device) for each shard of each stage, to write its weights. Called
  /// before the first batch.
  using Load = std::function<void(std::span<const Parameter>, tensor::Device&)>;
  void load_weights(const Load& load);

  /// Forgets the batch before and begins another: at most `sequences` prompts, each of at least one
  /// token and at most `capacity`. Returns the logits of the token after each. Throws Error{data}
  /// for an id that is not below vocab_size.
  std::span<const float> prefill(std::span<const std::vector<std::int32_t>> prompts);
  /// Appends a token to each sequence of the batch, or none (-1) to one that is finished. Returns
  /// the logits of the tokens after those.
  std::span<const float> decode(std::span<const std::int32_t> tokens);

  // Logits are [prompts, vocab_size], valid until the next call; rows of finished sequences have no
  // meaning.

 private:
  struct Shard;
  /// The last token of a prompt, in a pass over prompts.
  struct PromptEnd {
    std::int64_t row = 0, sequence = 0;
  };

  /// Makes the tokens of the prompts new_tokens_, checked.
  void take(std::span<const std::vector<std::int32_t>> prompts);
  /// The logits of the batch, of which each shard computes a part.
  using LogitsOf = void (Shard::*)(const tensor::Tensor& all) const;
  std::span<const float> logits(LogitsOf of);

  const GeneratorSpec spec_;
  ShardThreads threads_;
  std::vector<std::unique_ptr<Shard>> shards_;
  std::unique_ptr<TokenRows> rows_;
  tensor::Buffer logits_;              ///< pinned
  std::vector<std::int32_t> lengths_;  ///< of the batch's sequences so far
  std::vector<NewToken> new_tokens_;
  std::vector<PromptEnd> ends_;
};

}  // namespace troupe::stages
