#include "stages/model/model_kinds.h"

#include <fmt/format.h>

#include "stages/model/model_config.h"
#include "tensor/device/ops.h"

namespace troupe::stages {
namespace {

using tensor::FieldFault;
using tensor::Ops;

FieldFault check_rotary_positions(const ModelConfig& c) {
  if (auto why = tensor::check_rotary(c.rotary, c.head_dim); !why.empty()) return why;
  const bool is_longrope = c.rotary.type == tensor::RotaryType::longrope;
  const bool is_default = c.rotary.type == tensor::RotaryType::standard;
  if (traits_of(c.kind).has_longrope ? !is_longrope && !is_default : is_longrope)
    return {&c.rotary.type,
            fmt::format("rope_type = '{}' is not for models of kind {}; nearest: default",
                        name_of(c.rotary.type), name_of(c.kind))};
  const std::int64_t original = c.rotary.original_max_position_embeddings;
  if (c.rotary.type != tensor::RotaryType::dynamic || original == c.max_position_embeddings)
    return {};
  return {&c.rotary.original_max_position_embeddings,
          fmt::format(
              "rope_original_max_position_embeddings = {} must be max_position_embeddings = {} for "
              "rope_type = 'dynamic'",
              original, c.max_position_embeddings)};
}

/// Mixtral's files have one number for both widths, and experts in every layer.
FieldFault check_mixtral(const ModelConfig& c) {
  if (c.experts.width != c.intermediate_size)
    return {&c.experts.width,
            fmt::format("moe_intermediate_size = {} must be intermediate_size in a model of kind "
                        "mixtral; nearest: {}",
                        c.experts.width, c.intermediate_size)};
  if (!c.experts.normalizes)
    return {&c.experts.normalizes,
            "norm_topk_prob = false is not for models of kind mixtral; nearest: true, or kind "
            "qwen3_moe"};
  if (!c.experts.dense_layers.empty() || c.experts.sparse_step != 1)
    return {&c.experts.dense_layers, "every layer of a model of kind mixtral has experts"};
  return check_rotary_positions(c);
}

/// One matrix makes queries, keys and values of GPT-2, each as wide as the residual.
FieldFault check_gpt2_heads(const ModelConfig& c) {
  if (c.num_key_value_heads != c.num_attention_heads)
    return {&c.num_key_value_heads,
            fmt::format("num_key_value_heads = {} must be num_attention_heads in a model of kind "
                        "gpt2; nearest: {}",
                        c.num_key_value_heads, c.num_attention_heads)};
  if (c.head_dim * c.num_attention_heads != c.hidden_size)
    return {&c.head_dim, fmt::format("head_dim = {} must be hidden_size / num_attention_heads in a "
                                     "model of kind gpt2; nearest: "
                                     "{}",
                                     c.head_dim, c.hidden_size / c.num_attention_heads)};
  return {};
}

constexpr std::string_view kFrequencies[]{".rotary_emb.inv_freq"};
constexpr std::string_view kMasks[]{".attn.bias", ".attn.masked_bias"};

constexpr KindTraits kLlama{.name = "llama",
                            .has_layer_norm = false,
                            .is_gated = true,
                            .learns_positions = false,
                            .norm_form = NormForm::plain,
                            .norm_place = NormPlace::before,
                            .head_norm = HeadNorm::none,
                            .biases_qkv_only = false,
                            .chooses_attention_bias = true,
                            .chooses_mlp_bias = true,
                            .has_longrope = false,
                            .scales_embeddings = false,
                            .allows_value_head = true,
                            .has_experts = false,
                            .ties_embeddings = false,
                            .slides = nullptr,
                            .activation = &Ops::swiglu,  // silu(gate) * up (arXiv 2002.05202)
                            .activation_gradient = &Ops::swiglu_backward,
                            .check = check_rotary_positions,
                            .architecture = "LlamaForCausalLM",
                            .name_prefix = "model.",
                            .head_name = "lm_head.weight",
                            .constants = kFrequencies};

constexpr KindTraits kGpt2{.name = "gpt2",
                           .has_layer_norm = true,
                           .is_gated = false,
                           .learns_positions = true,
                           .norm_form = NormForm::plain,
                           .norm_place = NormPlace::before,
                           .head_norm = HeadNorm::none,
                           .biases_qkv_only = false,
                           .chooses_attention_bias = false,
                           .chooses_mlp_bias = false,
                           .has_longrope = false,
                           .scales_embeddings = false,
                           .allows_value_head = false,
                           .has_experts = false,
                           .ties_embeddings = true,
                           .slides = nullptr,
                           .activation = &Ops::gelu,  // its tanh form (arXiv 1606.08415)
                           .activation_gradient = &Ops::gelu_backward,
                           .check = check_gpt2_heads,
                           .architecture = "GPT2LMHeadModel",
                           .name_prefix = "transformer.",
                           .head_name = "lm_head.weight",
                           .constants = kMasks};

/// Llama's layers without what only the model of this name has.
constexpr KindTraits like_llama(const char* name, const char* architecture) {
  KindTraits kind = kLlama;
  kind.name = name;
  kind.architecture = architecture;
  kind.chooses_attention_bias = kind.chooses_mlp_bias = kind.allows_value_head = false;
  return kind;
}

constexpr bool in_every_layer(std::int64_t) {
  return true;
}

constexpr KindTraits mistral() {
  KindTraits kind = like_llama("mistral", "MistralForCausalLM");
  kind.slides = in_every_layer;
  return kind;
}

constexpr KindTraits qwen2() {
  KindTraits kind = like_llama("qwen2", "Qwen2ForCausalLM");
  kind.biases_qkv_only = true;
  return kind;
}

constexpr KindTraits qwen3() {
  KindTraits kind = like_llama("qwen3", "Qwen3ForCausalLM");
  kind.head_norm = HeadNorm::each_head;
  kind.chooses_attention_bias = true;
  return kind;
}

/// The kind with experts in the place of its feed-forward networks.
constexpr KindTraits with_experts(KindTraits kind, const char* name, const char* architecture) {
  kind.name = name;
  kind.architecture = architecture;
  kind.has_experts = true;
  return kind;
}

constexpr KindTraits mixtral() {
  KindTraits kind = with_experts(mistral(), "mixtral", "MixtralForCausalLM");
  kind.check = check_mixtral;
  return kind;
}

constexpr KindTraits phi3() {
  KindTraits kind = like_llama("phi3", "Phi3ForCausalLM");
  kind.slides = in_every_layer;
  kind.has_longrope = true;
  return kind;
}

constexpr KindTraits smollm3() {
  KindTraits kind = like_llama("smollm3", "SmolLM3ForCausalLM");
  kind.chooses_attention_bias = kind.chooses_mlp_bias = true;
  kind.ties_embeddings = true;
  return kind;
}

constexpr KindTraits like_gemma(const char* name, const char* architecture) {
  KindTraits kind = like_llama(name, architecture);
  kind.norm_form = NormForm::one_plus;
  kind.chooses_attention_bias = kind.scales_embeddings = kind.ties_embeddings = true;
  kind.activation = &Ops::geglu;
  kind.activation_gradient = &Ops::geglu_backward;
  return kind;
}

constexpr KindTraits gemma2() {
  KindTraits kind = like_gemma("gemma2", "Gemma2ForCausalLM");
  kind.norm_place = NormPlace::around;
  kind.slides = [](std::int64_t layer) { return layer % 2 == 0; };
  return kind;
}

constexpr KindTraits gemma3_text() {
  constexpr std::int64_t kPattern = 6;  // the last layer of so many sees all keys
  KindTraits kind = like_gemma("gemma3_text", "Gemma3ForCausalLM");
  kind.norm_place = NormPlace::around;
  kind.head_norm = HeadNorm::each_head;
  kind.slides = [](std::int64_t layer) { return (layer + 1) % kPattern != 0; };
  return kind;
}

constexpr KindTraits granite() {
  KindTraits kind = like_llama("granite", "GraniteForCausalLM");
  kind.chooses_attention_bias = kind.chooses_mlp_bias = true;
  return kind;
}

constexpr KindTraits internlm2() {
  KindTraits kind = like_llama("internlm2", "InternLM2ForCausalLM");
  kind.chooses_attention_bias = true;
  kind.head_name = "output.weight";
  return kind;
}

constexpr KindTraits olmo2() {
  KindTraits kind = like_llama("olmo2", "Olmo2ForCausalLM");
  kind.norm_place = NormPlace::after;
  kind.head_norm = HeadNorm::whole_width;
  kind.chooses_attention_bias = true;
  return kind;
}

}  // namespace

std::span<const KindTraits> model_kinds() {
  static constexpr KindTraits kTraits[]{
      kLlama,     kGpt2,
      mistral(),  qwen2(),
      qwen3(),    phi3(),
      smollm3(),  like_gemma("gemma", "GemmaForCausalLM"),
      gemma2(),   gemma3_text(),
      granite(),  olmo2(),
      mixtral(),  with_experts(qwen3(), "qwen3_moe", "Qwen3MoeForCausalLM"),
      internlm2()};
  return kTraits;
}

}  // namespace troupe::stages
