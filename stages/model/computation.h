#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "stages/model/model_config.h"
#include "tensor/device/rotary.h"

// What a model computes beside its products and norms, for all kinds alike, which the code of
// layers asks in place of the kind.

namespace troupe::stages {

/// Which keys a layer's queries see, and how both are rotated.
struct LayerAttention {
  std::int64_t window = 0;  ///< keys that a query sees, itself among them; 0: all up to its own
  std::optional<tensor::Rotary> rotary;  ///< none: as they are
  bool operator==(const LayerAttention&) const = default;
};
/// The attention of a layer, which counts from the first of the whole model.
LayerAttention attention_of(const ModelConfig& config, std::int64_t layer);
/// The different ones among all layers, in the order in which they come first.
std::vector<LayerAttention> attentions_of(const ModelConfig& config);

/// Whether the feed-forward layer has experts.
bool is_routed(const ModelConfig& config, std::int64_t layer);
/// The number of such layers.
std::int64_t num_routed_layers(const ModelConfig& config);

/// The model with these of its layers alone, in this order.
ModelConfig with_layers(ModelConfig config, std::span<const int> layers);

/// By what scores are multiplied; 0: by head_dim to the power of -1/2.
double attention_scale(const ModelConfig& config);
/// c of c * tanh(score / c), of scaled scores; 0: none.
double attention_cap(const ModelConfig& config);
/// By what embeddings are multiplied where they enter the first layer: a number of config.dtype
/// if the kind scales them by sqrt(hidden_size), as transformers rounds it.
double embedding_scale(const ModelConfig& config);
/// By what the output of a sublayer is multiplied before it is added to the residual stream.
double branch_scale(const ModelConfig& config);
/// By what logits are multiplied.
double logit_scale(const ModelConfig& config);
/// c of c * tanh(logit / c), of scaled logits; 0: none.
double logit_cap(const ModelConfig& config);

}  // namespace troupe::stages
