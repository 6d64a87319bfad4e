#pragma once

#include <cstdint>
#include <vector>

#include "launch/commands/options.h"
#include "stages/inference/generator.h"

namespace troupe::launch {

/// How `troupe generate` computes its prompts: in batches of at most `sequences` in their order.
/// Throws Error{data} if the model predicts no tokens, and Error{usage} with the nearest choice
/// that works if it has not enough positions, the shards or stages cannot divide it, or a machine
/// with so much memory has no room for the keys and values of one text.
stages::GeneratorSpec plan_generation(const GenerateOptions& options,
                                      const stages::ModelConfig& model,
                                      const std::vector<std::vector<std::int32_t>>& prompts,
                                      std::int64_t memory_bytes);

}  // namespace troupe::launch
