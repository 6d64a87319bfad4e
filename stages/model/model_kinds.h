#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "tensor/device/rotary.h"

namespace troupe::tensor {
class Ops;
class Stream;
struct Tensor;
}  // namespace troupe::tensor

namespace troupe::stages {

struct ModelConfig;

/// The decoder's layers, by Hugging Face's model_type.
enum class ModelKind {
  llama,    ///< RMSNorm, rotary embedding, SwiGLU, biases if asked for
  gpt2,     ///< LayerNorm, learned positions, GELU, biases (the block of arXiv 1909.08053)
  mistral,  ///< Llama's with a window of keys in every layer, if it has one
  qwen2,    ///< biases of q, k and v
  qwen3,    ///< norms of each head of q and k
  phi3,     ///< files with q, k and v in one tensor, and gate and up; rotation of a part of heads
  smollm3,  ///< layers without rotary embedding
  gemma,    ///< norms of 1 + weight, scaled embeddings, GeGLU
  gemma2,   ///< gemma's with norms after sublayers too, soft caps, windows in every other layer
  gemma3_text,  ///< gemma2's with norms of heads, and a rotary embedding for the layers of windows
  granite,      ///< Llama's with four multipliers
  olmo2,        ///< norms after sublayers alone, and of all of q and of k
  mixtral,      ///< mistral's with experts in every layer
  qwen3_moe,    ///< qwen3's with experts in some layers
  internlm2,    ///< Llama's in other names, with q, k and v in turns in one tensor of files
};

/// What a norm multiplies x / rms(x) with.
enum class NormForm {
  plain,     ///< the weight, which begins at 1
  one_plus,  ///< 1 + the weight, which begins at 0
};
/// Where a sublayer f has norms N of the residual stream x.
enum class NormPlace {
  before,  ///< x + f(N(x))
  around,  ///< x + N'(f(N(x)))
  after,   ///< x + N(f(x))
};
/// The norms of queries and of keys, after their products and before their rotation.
enum class HeadNorm {
  none,
  each_head,    ///< every head by itself, with one weight [head_dim] for all
  whole_width,  ///< all heads of a token together
};

/// What distinguishes the layers of a kind, and how Hugging Face's files call it.
struct KindTraits {
  const char* name;       ///< in manifests, which is the model_type of Hugging Face
  bool has_layer_norm;    ///< LayerNorm, with a bias; else RMSNorm
  bool is_gated;          ///< the activation reads two products, of gate and up; else one
  bool learns_positions;  ///< a table of positions; else rotary ones
  NormForm norm_form;     ///< of all norms, of queries and keys too
  NormPlace norm_place;
  HeadNorm head_norm;
  bool biases_qkv_only;         ///< q, k and v have biases, whatever attention_bias says
  bool chooses_attention_bias;  ///< by attention_bias: q, k, v and o
  bool chooses_mlp_bias;        ///< by mlp_bias: gate, up and down
  bool has_longrope;            ///< rope_type longrope, and no other but the default
  bool scales_embeddings;       ///< by sqrt(hidden_size)
  bool allows_value_head;       ///< ModelConfig::value_head
  bool has_experts;             ///< ModelConfig::experts
  bool ties_embeddings;  ///< unless a manifest says otherwise, as the kind's models were published
  /// Whether a layer has a window if layer_types does not say it; null: none has.
  bool (*slides)(std::int64_t layer);
  /// Between the products of a feed-forward layer: y[T, F] from x[T, H], both act, and dx[T, H]
  /// from x and dy[T, F], where dx may be x itself (letters of LayerShape).
  void (tensor::Ops::*activation)(tensor::Stream&, const tensor::Tensor& x,
                                  const tensor::Tensor& y);
  void (tensor::Ops::*activation_gradient)(tensor::Stream&, const tensor::Tensor& x,
                                           const tensor::Tensor& dy, const tensor::Tensor& dx);
  /// The rules of check_model() for this kind alone, whose sizes are in range.
  tensor::FieldFault (*check)(const ModelConfig& config);
  const char* architecture;  ///< the class of transformers with a head of the vocabulary
  const char* name_prefix;   ///< of the tensors' names, but the head's
  const char* head_name;     ///< of the head of the vocabulary
  /// Endings of the names of constants that older versions of transformers saved beside weights.
  std::span<const std::string_view> constants;
};
/// All kinds, by ModelKind.
std::span<const KindTraits> model_kinds();
inline const KindTraits& traits_of(ModelKind kind) {
  return model_kinds()[static_cast<std::size_t>(kind)];
}
inline const char* name_of(ModelKind kind) {
  return traits_of(kind).name;
}

}  // namespace troupe::stages
