#pragma once

#include <cstdint>
#include <string_view>

#include "stages/decoder/stage/transformer_stage.h"
#include "stages/stage/stage.h"

namespace troupe::bench {

/// Model and batch that every compute benchmark measures.
struct Workload {
  stages::ModelConfig model;
  std::int64_t seq_len = 256;
  std::int64_t micro = 4;
  std::int64_t global = 16;

  std::int64_t tokens() const { return micro * seq_len; }
  int num_microbatches() const { return static_cast<int>(global / micro); }
};

/// 27.4 million parameters: hidden 512, feed-forward 1376, 8 layers, 8 heads on 4 key-value heads,
/// vocabulary 4096. `dtype` is "float32" or "bfloat16"; throws Error{usage} for another.
Workload measured_workload(std::string_view dtype);

/// Lets the workload's model be of this kind, with its sizes. Layers of Mistral have a window of
/// half a sequence. "lora" is Llama with adapters. Throws Error{usage} for a kind that is not
/// measured.
Workload of_kind(Workload workload, std::string_view kind);

/// The stage's description for the workload's step.
stages::StageSpec stage_spec(const Workload& workload, const stages::ChunkSpec& chunk);

/// Token ids spread over the vocabulary, so that the microbatch is no special case for any op.
std::vector<std::int32_t> spread_tokens(const Workload& workload);

}  // namespace troupe::bench
