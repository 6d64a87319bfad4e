#include "tests/bench/workload.h"

#include <string>

#include "tensor/errors/error.h"

namespace troupe::bench {

Workload measured_workload(std::string_view dtype) {
  if (dtype != "float32" && dtype != "bfloat16") {
    throw Error(ErrorKind::usage,
                "'" + std::string(dtype) + "' is no compute dtype: float32 or bfloat16");
  }
  return {.model = {.hidden_size = 512,
                    .intermediate_size = 1376,
                    .num_hidden_layers = 8,
                    .num_attention_heads = 8,
                    .num_key_value_heads = 4,
                    .head_dim = 64,
                    .vocab_size = 4096,
                    .dtype = dtype == "float32" ? tensor::DType::f32 : tensor::DType::bf16}};
}

Workload of_kind(Workload workload, std::string_view kind) {
  if (kind == "lora") {
    workload.model.adapter = {
        .rank = 8, .alpha = 16, .targets = stages::adapter_targets(workload.model)};
    return workload;
  }
  for (const stages::ModelKind known :
       {stages::ModelKind::llama, stages::ModelKind::mistral, stages::ModelKind::qwen3}) {
    if (stages::name_of(known) != kind) continue;
    workload.model.kind = known;
    if (known == stages::ModelKind::mistral) workload.model.sliding_window = workload.seq_len / 2;
    return workload;
  }
  throw Error(ErrorKind::usage,
              "'" + std::string(kind) + "' is no measured kind: llama, mistral, qwen3 or lora");
}

stages::StageSpec stage_spec(const Workload& workload, const stages::ChunkSpec& chunk) {
  return {.model = workload.model,
          .chunks = {chunk},
          .micro = workload.micro,
          .seq_len = workload.seq_len,
          .global_tokens = workload.global * workload.seq_len};
}

std::vector<std::int32_t> spread_tokens(const Workload& workload) {
  std::vector<std::int32_t> ids(static_cast<std::size_t>(workload.tokens()));
  for (std::size_t i = 0; i < ids.size(); ++i) {
    // Multiplication by an odd constant permutes the integers modulo a power of two.
    const auto scrambled = static_cast<std::uint32_t>(i) * 2654435761u >> 8;
    ids[i] = static_cast<std::int32_t>(scrambled % workload.model.vocab_size);
  }
  return ids;
}

}  // namespace troupe::bench
