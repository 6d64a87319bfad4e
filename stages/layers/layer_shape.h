#pragma once

#include "stages/model_config.h"

namespace troupe::stages {

/// What a layer is made for: a model and the batch dims of its microbatches.
struct LayerSpec {
  ModelConfig model;
  std::int64_t micro = 1;
  std::int64_t seq_len = 0;
};

/// The sizes that all layers of a stage share. The tables of this folder give shapes in these
/// letters; "act" is `dtype`.
struct LayerShape {
  explicit LayerShape(const LayerSpec& spec)
      : T(spec.micro * spec.seq_len),
        C(spec.model.hidden_size),
        A(spec.model.num_attention_heads * spec.model.head_dim),
        Q(A + 2 * spec.model.num_key_value_heads * spec.model.head_dim),
        F(spec.model.intermediate_size),
        V(spec.model.vocab_size),
        dtype(spec.model.dtype) {}

  std::int64_t T;       ///< tokens of a microbatch
  std::int64_t C;       ///< channels of the residual stream
  std::int64_t A;       ///< width of all query heads
  std::int64_t Q;       ///< width of all query, key and value heads
  std::int64_t F;       ///< feed-forward width
  std::int64_t V;       ///< vocabulary
  tensor::DType dtype;  ///< of activations and their gradients
};

}  // namespace troupe::stages
