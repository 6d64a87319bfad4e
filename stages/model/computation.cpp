#include "stages/model/computation.h"

#include <algorithm>
#include <cmath>

#include "tensor/values/dtype.h"

namespace troupe::stages {
namespace {

bool slides(const ModelConfig& config, std::int64_t layer) {
  const auto index = static_cast<std::size_t>(layer);
  if (!config.layer_types.empty()) return config.layer_types[index] == LayerType::sliding;
  const auto by_kind = traits_of(config.kind).slides;
  return by_kind && by_kind(layer);
}

}  // namespace

LayerAttention attention_of(const ModelConfig& config, std::int64_t layer) {
  const bool is_windowed = slides(config, layer);
  LayerAttention attention{.window = is_windowed ? config.sliding_window : 0,
                           .rotary = rotary_of(config)};
  if (is_windowed && config.local_rotary) attention.rotary = config.local_rotary;
  const bool is_rotated =
      config.no_rope_layers.empty() || config.no_rope_layers[static_cast<std::size_t>(layer)] != 0;
  if (!is_rotated) attention.rotary.reset();
  return attention;
}

std::vector<LayerAttention> attentions_of(const ModelConfig& config) {
  std::vector<LayerAttention> different;
  for (std::int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    LayerAttention attention = attention_of(config, layer);
    if (std::ranges::find(different, attention) == different.end())
      different.push_back(std::move(attention));
  }
  return different;
}

bool is_routed(const ModelConfig& config, std::int64_t layer) {
  const Experts& experts = config.experts;
  return experts.count > 0 && (layer + 1) % experts.sparse_step == 0 &&
         std::ranges::count(experts.dense_layers, layer) == 0;
}

std::int64_t num_routed_layers(const ModelConfig& config) {
  std::int64_t count = 0;
  for (std::int64_t layer = 0; layer < config.num_hidden_layers; ++layer)
    count += is_routed(config, layer) ? 1 : 0;
  return count;
}

ModelConfig with_layers(ModelConfig config, std::span<const int> layers) {
  std::vector<LayerType> types;
  std::vector<int> rotated;
  std::vector<int> dense;
  for (int place = 0; const int layer : layers) {
    if (config.experts.count > 0 && !is_routed(config, layer)) dense.push_back(place);
    ++place;
    types.push_back(slides(config, layer) ? LayerType::sliding : LayerType::full);
    if (!config.no_rope_layers.empty())
      rotated.push_back(config.no_rope_layers[static_cast<std::size_t>(layer)]);
  }
  if (traits_of(config.kind).slides || !config.layer_types.empty())
    config.layer_types = std::move(types);
  config.no_rope_layers = std::move(rotated);
  config.experts.dense_layers = std::move(dense);
  config.experts.sparse_step = 1;
  config.num_hidden_layers = std::ssize(layers);
  return config;
}

double attention_scale(const ModelConfig& config) {
  if (config.attention_multiplier != 0) return config.attention_multiplier;
  return config.query_pre_attn_scalar == 0
             ? 0
             : 1 / std::sqrt(static_cast<double>(config.query_pre_attn_scalar));
}

double attention_cap(const ModelConfig& config) {
  return config.attn_logit_softcapping;
}

double embedding_scale(const ModelConfig& config) {
  if (!traits_of(config.kind).scales_embeddings) return config.embedding_multiplier;
  const auto root = static_cast<float>(std::sqrt(static_cast<double>(config.hidden_size)));
  return config.dtype == tensor::DType::bf16 ? tensor::to_float(tensor::to_bfloat16(root)) : root;
}

double branch_scale(const ModelConfig& config) {
  return config.residual_multiplier;
}

double logit_scale(const ModelConfig& config) {
  return 1 / config.logits_scaling;
}

double logit_cap(const ModelConfig& config) {
  return config.final_logit_softcapping;
}

}  // namespace troupe::stages
