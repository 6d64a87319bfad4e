#pragma once

#include <algorithm>
#include <vector>

#include "stages/model/computation.h"
#include "stages/model/sharding.h"
#include "stages/stage/row_sizes.h"
#include "tensor/parallel/expert_parallel.h"
#include "tensor/parallel/tensor_parallel.h"

namespace troupe::stages {

/// What a layer is made for: a model, the batch dims of its microbatches, and the shard that it is
/// on.
struct LayerSpec {
  ModelConfig model;
  std::int64_t micro = 1;
  int lanes = 1;
  int row_multiple = 0;  ///< StageSpec::row_multiple
  std::int64_t seq_len = 0;
  Documents documents = Documents::joined;
  std::int64_t global_samples = 1;  ///< of a step, those of all replicas
  std::uint64_t seed = 0;           ///< of dropout
  tensor::TensorParallel parallel{};
  tensor::ExpertParallel experts{};
  bool whole_experts = false;  ///< Sharding::whole_experts

  RowSizes rows() const {
    return row_sizes(documents, micro * seq_len, row_multiple > 0 ? row_multiple : parallel.size,
                     lanes);
  }
};

/// By layer of the model: is_routed().
inline std::vector<char> routed_layers(const ModelConfig& model) {
  std::vector<char> routed;
  for (std::int64_t layer = 0; layer < model.num_hidden_layers; ++layer)
    routed.push_back(is_routed(model, layer) ? 1 : 0);
  return routed;
}
/// Whether any of the model's layers has no experts.
inline bool has_dense_layers(const ModelConfig& model) {
  return num_routed_layers(model) < model.num_hidden_layers;
}

/// The sizes that all layers of a stage share, and what a shard has of each. The tables of this
/// folder give shapes in these letters; "act" is `dtype`.
struct LayerShape {
  /// How many of a microbatch's tokens the shard has between the layers.
  std::int64_t own_tokens(std::int64_t tokens) const { return S == T ? tokens : tokens * S / T; }

  explicit LayerShape(const LayerSpec& spec)
      : T(spec.rows().capacity),
        S(spec.parallel.splits_tokens() ? T / spec.parallel.size : T),
        C(spec.model.hidden_size),
        heads(spec.model.num_attention_heads / spec.parallel.size),
        kv_heads(std::max<std::int64_t>(1, spec.model.num_key_value_heads / spec.parallel.size)),
        A(heads * spec.model.head_dim),
        Q(A + 2 * kv_heads * spec.model.head_dim),
        F(has_dense_layers(spec.model) ? spec.model.intermediate_size / spec.parallel.size : 0),
        H(traits_of(spec.model.kind).is_gated ? 2 * F : F),
        V(vocab_rows(spec.model.vocab_size, spec.parallel.size)),
        E(spec.model.experts.count),
        K(spec.model.experts.per_token),
        N(spec.whole_experts ? S : T),
        M(spec.model.experts.width / (spec.whole_experts ? 1 : spec.parallel.size)),
        own_experts(E / spec.experts.size),
        R(N * K),
        X(R),
        dtype(spec.model.dtype) {
    if (spec.experts.size == 1) return;
    const std::int64_t most = own_experts * spec.model.experts.capacity;
    X = spec.experts.size * (most > 0 ? std::min(R, most) : R);
  }

  std::int64_t T;            ///< tokens of a microbatch, the most if microbatches differ
  std::int64_t S;            ///< tokens between layers: all, or the shard's (sequence parallelism)
  std::int64_t C;            ///< channels of the residual stream
  std::int64_t heads;        ///< query heads of the shard
  std::int64_t kv_heads;     ///< key and value heads of the shard
  std::int64_t A;            ///< width of its query heads
  std::int64_t Q;            ///< width of its query, key and value heads
  std::int64_t F;            ///< its feed-forward width; 0: every layer has experts
  std::int64_t H;            ///< width before the activation: F, or of gate and up together
  std::int64_t V;            ///< its part of the vocabulary, padded
  std::int64_t E;            ///< experts of a layer that has some
  std::int64_t K;            ///< those of each token
  std::int64_t N;            ///< tokens that the shard routes: all, or its own
  std::int64_t M;            ///< the shard's width of one
  std::int64_t own_experts;  ///< those that the replica has
  std::int64_t R;            ///< rows for experts, K of each token
  std::int64_t X;            ///< the most rows that its experts compute: those of all replicas
  tensor::DType dtype;       ///< of activations and their gradients
};

/// Memory for all tokens of a microbatch, where layers keep those of their shard. Forwards share
/// one, and backwards another. Empty without sequence parallelism.
struct GatheredTokens {
  tensor::Tensor input;   // [T, C]  act  what a column-parallel layer reads
  tensor::Tensor output;  // [T, C]  act  a row-parallel layer's partial sums, or their gradient
};

/// Lets a matrix, or numbers one to a token, have other rows in the same memory. An empty tensor
/// stays empty.
inline void use_rows(tensor::Tensor& x, std::int64_t rows) {
  if (!x) return;
  x.shape = x.shape.rank() == 2 ? tensor::Shape{rows, x.shape[1]} : tensor::Shape{rows};
}

inline void use_rows(GatheredTokens& gathered, std::int64_t rows) {
  use_rows(gathered.input, rows);
  use_rows(gathered.output, rows);
}

/// What a product over all tokens reads or writes: the gathered tokens, if they are apart.
inline const tensor::Tensor& all_tokens(const tensor::Tensor& own, const tensor::Tensor& gathered) {
  return gathered ? gathered : own;
}

}  // namespace troupe::stages
