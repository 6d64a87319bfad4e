#pragma once

#include <nlohmann/json.hpp>
#include <span>

#include "stages/files/hugging_face/config_fields.h"
#include "stages/files/hugging_face/model_field.h"
#include "stages/files/hugging_face/rope_config.h"
#include "stages/model/model_config.h"

// What transformers says of each kind in a config.json: the fields, their names, and what a missing
// one means.

namespace troupe::stages {

/// Which layers have a window of keys if sliding_window is a number.
enum class WindowedLayers {
  by_kind,       ///< KindTraits::slides, or none
  if_used,       ///< the same, but none without use_sliding_window
  listed,        ///< those of layer_types, else as the line above
  patterned,     ///< listed, else by sliding_window_pattern
  from_layer,    ///< with use_sliding_window those of layer_types, else from max_window_layers on
  without_rope,  ///< the same, else those of no_rope_layers
};

/// How transformers describes the models of a kind.
struct HfKind {
  /// Where a field is missing, the model is as this one. 0 key and value heads: as many as heads; 0
  /// as head_dim: hidden_size / heads.
  ModelConfig defaults;
  std::span<const ModelField> fields;  ///< with a key of [model] each
  /// The others, which layers_of() and read_layers() read and write beside what is not a number.
  std::span<const ModelField> own_fields;
  WindowedLayers windows = WindowedLayers::by_kind;
  bool lists_routed_layers = false;  ///< read_routed_layers()
  RopeRules rope;
  const char* activation;
  /// The names under which transformers has the kind's activation; new files have the first.
  std::span<const char* const> activations;
  /// What depends on other fields, and back, with fields that are the same for every model.
  void (*read_rest)(ConfigFields& fields, const HfKind& kind, ModelConfig& model);
  nlohmann::json (*rest_of)(const ModelConfig& model);
};
const HfKind& hf_kind(ModelKind kind);

}  // namespace troupe::stages
