#pragma once

#include <array>
#include <string_view>

#include "stages/model/model_config.h"
#include "tensor/errors/error.h"

// Small models of the families that are variants of Llama, with all that each of them has.

namespace troupe::test {

inline constexpr std::array kFamilies{"mistral", "qwen2",     "qwen3",       "phi3",    "smollm3",
                                      "gemma",   "gemma2",    "gemma3_text", "granite", "olmo2",
                                      "mixtral", "qwen3_moe", "internlm2"};

namespace families {

using stages::LayerType;
using stages::ModelConfig;
using tensor::RotaryType;

/// The layers but every third one.
inline std::vector<int> most_layers(const ModelConfig& model) {
  std::vector<int> most;
  for (std::int64_t layer = 0; layer < model.num_hidden_layers; ++layer)
    most.push_back(layer % 3 == 1 ? 0 : 1);
  return most;
}
inline std::vector<LayerType> layer_types(const ModelConfig& model) {
  std::vector<LayerType> types;
  for (const int slides : most_layers(model))
    types.push_back(slides ? LayerType::sliding : LayerType::full);
  return types;
}

/// Turns half of each head, by the list of long sequences if they have more than 6 tokens.
inline tensor::Rotary longrope(const ModelConfig& model) {
  tensor::Rotary rotary{
      .type = RotaryType::longrope, .factor = 4, .original_max_position_embeddings = 6};
  rotary.dim = model.head_dim / 4 * 2;
  for (std::int64_t i = 0; i < rotary.dim / 2; ++i) {
    rotary.short_factor.push_back(1 + 0.1 * static_cast<double>(i));
    rotary.long_factor.push_back(1.5 + static_cast<double>(i));
  }
  return rotary;
}

inline void set_gemma2(ModelConfig& model) {
  model.sliding_window = 5;
  model.query_pre_attn_scalar = 20;
  model.attn_logit_softcapping = 1.5;
  model.final_logit_softcapping = 2;
}

inline void set_gemma3(ModelConfig& model) {
  model.sliding_window = 5;
  model.layer_types = layer_types(model);
  model.query_pre_attn_scalar = 20;
  model.rotary = {.type = RotaryType::linear, .theta = 1e6, .factor = 4};
  model.local_rotary = tensor::Rotary{};
}

inline void set_mixtral(ModelConfig& model) {
  model.experts = {.count = 4, .per_token = 2, .width = model.intermediate_size};
}

/// With a layer without experts, and all that a router can have.
inline void set_qwen3_moe(ModelConfig& model) {
  model.experts = {.count = 6,
                   .per_token = 3,
                   .width = 2 * model.intermediate_size,
                   .normalizes = false,
                   .aux_loss_coef = 0.05,
                   .z_loss_coef = 0.01};
  if (model.num_hidden_layers > 1) model.experts.dense_layers = {1};
}

inline void set_granite(ModelConfig& model) {
  model.embedding_multiplier = 6;
  model.attention_multiplier = 0.2;
  model.residual_multiplier = 0.3;
  model.logits_scaling = 0.5;
  model.attention_bias = true;
}

}  // namespace families

inline bool has_experts(std::string_view family) {
  return family == "mixtral" || family == "qwen3_moe";
}

/// A model of these sizes, of Llama's kind, made one of a family. Without a name it stays.
inline stages::ModelConfig as_family(stages::ModelConfig model, std::string_view name) {
  using stages::ModelKind;
  if (name.empty()) return model;
  for (std::size_t kind = 0; kind < stages::model_kinds().size(); ++kind)
    if (stages::model_kinds()[kind].name == name) model.kind = static_cast<ModelKind>(kind);
  TROUPE_ASSERT(stages::name_of(model.kind) == name);
  if (name == "mistral" || name == "phi3") model.sliding_window = 5;
  if (name == "phi3") model.rotary = families::longrope(model);
  if (name == "qwen2") {
    model.sliding_window = 4;
    model.layer_types = families::layer_types(model);
  }
  if (name == "smollm3") model.no_rope_layers = families::most_layers(model);
  if (name == "gemma2") families::set_gemma2(model);
  if (name == "gemma3_text") families::set_gemma3(model);
  if (name == "granite") families::set_granite(model);
  if (name == "internlm2") model.attention_bias = true;
  if (name == "mixtral") families::set_mixtral(model);
  if (name == "qwen3_moe") families::set_qwen3_moe(model);
  return model;
}

}  // namespace troupe::test
