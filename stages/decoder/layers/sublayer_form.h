#pragma once

#include "stages/model/computation.h"

namespace troupe::stages {

/// Which products of a sublayer have an adapter, in all layers that have such products.
struct AdaptedProducts {
  bool in = false, out = false;
  bool operator==(const AdaptedProducts&) const = default;
};

/// What the sublayers of a model have beside their products and what lies between those, the same
/// in all layers of a stage. It decides which nodes there are.
struct SublayerForm {
  bool has_norm = true;       ///< of what the first product reads
  bool has_end_norm = false;  ///< of what the last product gives, before the residual sum
  float branch_scale = 1;     ///< of what is added to the residual stream
  HeadNorm head_norm = HeadNorm::none;
  /// Whether the norms of queries and keys read sums over the shards, because these divide what is
  /// normed together.
  bool sums_heads = false;
  /// Whether only adapters have gradients (ModelConfig::adapter).
  bool has_frozen_base = false;
  AdaptedProducts attention_adapters{}, feed_forward_adapters{};

  /// Whether the residual sum does not follow the last product directly, so that the gradient of
  /// that product's result is not the sum's.
  bool changes_branch() const { return has_end_norm || branch_scale != 1; }
  bool operator==(const SublayerForm&) const = default;
};

SublayerForm sublayer_form(const ModelConfig& model, int shards);

}  // namespace troupe::stages
