#include "stages/files/hugging_face/hf_kinds.h"

#include <algorithm>
#include <array>

#include "stages/files/hugging_face/decoder_fields.h"
#include "stages/files/hugging_face/expert_fields.h"
#include "tensor/errors/error.h"

namespace troupe::stages {
namespace {

using nlohmann::json;
using M = ModelConfig;

constexpr const char* kPositionsField = "max_position_embeddings";
constexpr const char* kTiedField = "tie_word_embeddings";
constexpr const char* kWindowField = "sliding_window";
constexpr const char* kScalar = "query_pre_attn_scalar";
constexpr const char* kFinalCap = "final_logit_softcapping";
constexpr const char* kEmbeddingDropout = "embd_pdrop";
constexpr const char* kResidualDropout = "resid_pdrop";

template <typename T>
constexpr ModelField field_of(const char* name, T M::*member, const char* alias = nullptr) {
  return {name, FieldMember<T>{member}, alias};
}
template <typename T>
constexpr ModelField nullable(const char* name, T M::*member) {
  return {name, FieldMember<T>{member, true}};
}

constexpr const char* kSilu[]{"silu", "swish"};
// Names of one function, the tanh form of GELU. transformers takes Gemma's gelu for it too.
constexpr const char* kGelu[]{"gelu_new", "gelu_pytorch_tanh", "gelu_fast"};
constexpr const char* kGemmaGelu[]{"gelu_pytorch_tanh", "gelu_new", "gelu_fast"};
constexpr const char* kOldGemmaGelu[]{"gelu_pytorch_tanh", "gelu_new", "gelu_fast", "gelu"};

constexpr std::array kDecoderFields{field_of("hidden_size", &M::hidden_size),
                                    field_of("intermediate_size", &M::intermediate_size),
                                    field_of("num_hidden_layers", &M::num_hidden_layers),
                                    field_of("num_attention_heads", &M::num_attention_heads),
                                    field_of("rms_norm_eps", &M::rms_norm_eps),
                                    field_of(kPositionsField, &M::max_position_embeddings),
                                    field_of("attention_dropout", &M::attention_dropout),
                                    field_of("vocab_size", &M::vocab_size),
                                    field_of(kTiedField, &M::tie_word_embeddings)};

template <std::size_t N>
constexpr auto with_fields(const std::array<ModelField, N>& fields, const auto&... more) {
  std::array<ModelField, N + sizeof...(more)> all{};
  std::copy(fields.begin(), fields.end(), all.begin());
  std::size_t at = N;
  ((all[at++] = more), ...);
  return all;
}
constexpr auto kAttentionBiasFields =
    with_fields(kDecoderFields, field_of("attention_bias", &M::attention_bias));
constexpr auto kInternlm2Fields = with_fields(kDecoderFields, field_of("bias", &M::attention_bias));
constexpr auto kBiasFields = with_fields(kAttentionBiasFields, field_of("mlp_bias", &M::mlp_bias));
constexpr auto kDropoutFields =
    with_fields(kDecoderFields, field_of(kResidualDropout, &M::hidden_dropout),
                field_of(kEmbeddingDropout, &M::hidden_dropout));

constexpr std::array kGpt2Fields{
    field_of("n_embd", &M::hidden_size, "hidden_size"),
    field_of("n_layer", &M::num_hidden_layers, "num_hidden_layers"),
    field_of("n_head", &M::num_attention_heads, "num_attention_heads"),
    field_of("layer_norm_epsilon", &M::layer_norm_epsilon),
    field_of("n_positions", &M::max_position_embeddings, kPositionsField),
    field_of("attn_pdrop", &M::attention_dropout),
    field_of(kResidualDropout, &M::hidden_dropout),
    field_of(kEmbeddingDropout, &M::hidden_dropout),
    field_of("vocab_size", &M::vocab_size),
    field_of(kTiedField, &M::tie_word_embeddings)};

constexpr std::array kWindowFields{nullable(kWindowField, &M::sliding_window)};
constexpr std::array kGemma2Fields{nullable(kWindowField, &M::sliding_window),
                                   field_of(kScalar, &M::query_pre_attn_scalar),
                                   nullable("attn_logit_softcapping", &M::attn_logit_softcapping),
                                   nullable(kFinalCap, &M::final_logit_softcapping)};
constexpr std::array kGemma3Fields{nullable(kWindowField, &M::sliding_window),
                                   field_of(kScalar, &M::query_pre_attn_scalar),
                                   nullable(kFinalCap, &M::final_logit_softcapping)};
constexpr std::array kGraniteFields{field_of("embedding_multiplier", &M::embedding_multiplier),
                                    field_of("attention_multiplier", &M::attention_multiplier),
                                    field_of("residual_multiplier", &M::residual_multiplier),
                                    field_of("logits_scaling", &M::logits_scaling)};

void read_dropout(ConfigFields& fields, const HfKind& kind, const M& model) {
  if (model.hidden_dropout != fields.get(kResidualDropout, kind.defaults.hidden_dropout))
    fields.refuse(kEmbeddingDropout,
                  "Troupe has one probability for embd_pdrop and resid_pdrop; give "
                  "both the same");
}

json llama_rest(const M& model) {
  json rest = decoder_rest(model);
  rest["pretraining_tp"] = 1;
  return rest;
}

void read_rest_with_experts(ConfigFields& fields, const HfKind& kind, M& model) {
  read_expert_fields(fields, kind.defaults, model);
  read_decoder_rest(fields, kind, model);
}

json rest_with_experts(const M& model) {
  json rest = decoder_rest(model);
  rest.update(expert_fields_of(model));
  return rest;
}

void read_phi3_rest(ConfigFields& fields, const HfKind& kind, M& model) {
  read_dropout(fields, kind, model);
  read_decoder_rest(fields, kind, model);
}

/// Old files name the activation twice; hidden_act is the one that counts.
void read_gemma_rest(ConfigFields& fields, const HfKind& kind, M& model) {
  fields.value("hidden_activation");
  read_decoder_rest(fields, kind, model);
}

/// transformers reads a cap of scores for Gemma 3, and applies none; hidden_activation is the one
/// that counts.
void read_gemma2_rest(ConfigFields& fields, const HfKind& kind, M& model) {
  fields.value("hidden_act");
  fields.value("attn_logit_softcapping");
  read_decoder_rest(fields, kind, model);
}

void read_gpt2_rest(ConfigFields& fields, const HfKind& kind, M& model) {
  read_dropout(fields, kind, model);
  model.intermediate_size = fields.find<std::int64_t>("n_inner").value_or(4 * model.hidden_size);
  model.num_key_value_heads = model.num_attention_heads;
  model.head_dim = default_head_dim(model);
}

json gpt2_rest(const M& model) {
  return {{"n_inner", model.intermediate_size},
          {"scale_attn_weights", true},
          {"scale_attn_by_inverse_layer_idx", false},
          {"reorder_and_upcast_attn", false}};
}

/// Sizes of transformers' configuration, where they differ from Llama's.
struct Sizes {
  std::int64_t vocab = 32000, hidden = 4096, intermediate = 11008, layers = 32, heads = 32;
  std::int64_t kv_heads = 0, head_dim = 0, positions = 2048;
  double eps = 1e-6;
};

/// A kind with Llama's fields.
HfKind decoder(ModelKind kind, const Sizes& sizes) {
  M defaults{.kind = kind,
             .hidden_size = sizes.hidden,
             .intermediate_size = sizes.intermediate,
             .num_hidden_layers = sizes.layers,
             .num_attention_heads = sizes.heads,
             .num_key_value_heads = sizes.kv_heads,
             .head_dim = sizes.head_dim,
             .vocab_size = sizes.vocab,
             .rms_norm_eps = sizes.eps,
             .max_position_embeddings = sizes.positions};
  return {.defaults = std::move(defaults),
          .fields = kDecoderFields,
          .activation = "hidden_act",
          .activations = kSilu,
          .read_rest = read_decoder_rest,
          .rest_of = decoder_rest};
}

HfKind hf_llama() {
  HfKind kind = decoder(ModelKind::llama, {});
  kind.fields = kBiasFields;
  kind.rest_of = llama_rest;
  return kind;
}

HfKind hf_gpt2() {
  M defaults{.kind = ModelKind::gpt2,
             .hidden_size = 768,
             .num_hidden_layers = 12,
             .num_attention_heads = 12,
             .vocab_size = 50257,
             .max_position_embeddings = 1024,
             .tie_word_embeddings = true,
             .hidden_dropout = 0.1,
             .attention_dropout = 0.1};
  return {.defaults = std::move(defaults),
          .fields = kGpt2Fields,
          .activation = "activation_function",
          .activations = kGelu,
          .read_rest = read_gpt2_rest,
          .rest_of = gpt2_rest};
}

HfKind with_window(HfKind kind, std::int64_t window, WindowedLayers layers) {
  kind.defaults.sliding_window = window;
  kind.own_fields = kWindowFields;
  kind.windows = layers;
  return kind;
}

HfKind hf_mistral() {
  return with_window(
      decoder(ModelKind::mistral, {.intermediate = 14336, .kv_heads = 8, .positions = 131072}),
      4096, WindowedLayers::by_kind);
}

HfKind hf_qwen(ModelKind kind, std::int64_t head_dim) {
  return with_window(decoder(kind, {.vocab = 151936,
                                    .intermediate = 22016,
                                    .kv_heads = 32,
                                    .head_dim = head_dim,
                                    .positions = 32768}),
                     4096, WindowedLayers::from_layer);
}

HfKind hf_qwen3() {
  HfKind kind = hf_qwen(ModelKind::qwen3, 128);
  kind.fields = kAttentionBiasFields;
  return kind;
}

HfKind hf_phi3() {
  HfKind kind = with_window(
      decoder(
          ModelKind::phi3,
          {.vocab = 32064, .hidden = 3072, .intermediate = 8192, .positions = 4096, .eps = 1e-5}),
      0, WindowedLayers::by_kind);
  kind.fields = kDropoutFields;
  kind.rope = {.turns_parts = true, .original = 4096};
  kind.read_rest = read_phi3_rest;
  return kind;
}

HfKind hf_smollm3() {
  HfKind kind = with_window(decoder(ModelKind::smollm3, {.vocab = 128256,
                                                         .hidden = 2048,
                                                         .layers = 36,
                                                         .heads = 16,
                                                         .kv_heads = 4,
                                                         .positions = 32768}),
                            0, WindowedLayers::without_rope);
  kind.fields = kBiasFields;
  kind.defaults.rotary.theta = 2e6;
  kind.defaults.tie_word_embeddings = true;
  return kind;
}

HfKind hf_gemma(ModelKind which, const Sizes& sizes) {
  HfKind kind = decoder(which, sizes);
  kind.fields = kAttentionBiasFields;
  kind.defaults.tie_word_embeddings = true;
  kind.activations = kOldGemmaGelu;
  kind.read_rest = read_gemma_rest;
  return kind;
}

HfKind hf_gemma2(ModelKind which, std::int64_t vocab, std::int64_t positions) {
  HfKind kind = hf_gemma(which, {.vocab = vocab,
                                 .hidden = 2304,
                                 .intermediate = 9216,
                                 .layers = 26,
                                 .heads = 8,
                                 .kv_heads = 4,
                                 .head_dim = 256,
                                 .positions = positions});
  kind.own_fields = kGemma2Fields;
  kind.defaults.sliding_window = 4096;
  kind.defaults.query_pre_attn_scalar = 256;
  kind.defaults.attn_logit_softcapping = 50;
  kind.defaults.final_logit_softcapping = 30;
  kind.windows = WindowedLayers::listed;
  kind.activation = "hidden_activation";
  kind.activations = kGemmaGelu;
  kind.read_rest = read_gemma2_rest;
  return kind;
}

HfKind hf_gemma3() {
  HfKind kind = hf_gemma2(ModelKind::gemma3_text, 262208, 131072);
  kind.own_fields = kGemma3Fields;
  kind.defaults.attn_logit_softcapping = kind.defaults.final_logit_softcapping = 0;
  kind.defaults.rotary.theta = 1e6;
  kind.defaults.local_rotary = tensor::Rotary{.theta = 1e4};
  kind.windows = WindowedLayers::patterned;
  kind.rope.is_by_layer = true;
  return kind;
}

HfKind hf_granite() {
  HfKind kind = decoder(ModelKind::granite, {});
  kind.fields = kBiasFields;
  kind.own_fields = kGraniteFields;
  kind.defaults.attention_multiplier = 1;
  return kind;
}

HfKind hf_olmo2() {
  HfKind kind = decoder(ModelKind::olmo2, {.vocab = 50304, .eps = 1e-5});
  kind.fields = kAttentionBiasFields;
  return kind;
}

HfKind with_experts(HfKind kind, const Experts& experts) {
  kind.defaults.experts = experts;
  kind.read_rest = read_rest_with_experts;
  kind.rest_of = rest_with_experts;
  return kind;
}

HfKind hf_mixtral() {
  HfKind kind =
      with_window(decoder(ModelKind::mixtral,
                          {.intermediate = 14336, .kv_heads = 8, .positions = 131072, .eps = 1e-5}),
                  0, WindowedLayers::by_kind);
  kind.defaults.rotary.theta = 1e6;
  return with_experts(std::move(kind), {.count = 8, .per_token = 2});
}

HfKind hf_qwen3_moe() {
  HfKind kind = with_window(decoder(ModelKind::qwen3_moe, {.vocab = 151936,
                                                           .hidden = 2048,
                                                           .intermediate = 6144,
                                                           .layers = 24,
                                                           .kv_heads = 4,
                                                           .positions = 32768}),
                            4096, WindowedLayers::if_used);
  kind.fields = kAttentionBiasFields;
  kind.lists_routed_layers = true;
  return with_experts(std::move(kind),
                      {.count = 128, .per_token = 8, .width = 768, .normalizes = false});
}

/// As configuration_internlm2.py has it, which comes with the models.
HfKind hf_internlm2() {
  HfKind kind = decoder(ModelKind::internlm2, {.vocab = 103168});
  kind.fields = kInternlm2Fields;
  kind.defaults.attention_bias = true;
  return kind;
}

}  // namespace

const HfKind& hf_kind(ModelKind kind) {
  static const HfKind kKinds[]{// by ModelKind
                               hf_llama(),
                               hf_gpt2(),
                               hf_mistral(),
                               hf_qwen(ModelKind::qwen2, 0),
                               hf_qwen3(),
                               hf_phi3(),
                               hf_smollm3(),
                               hf_gemma(ModelKind::gemma, {.vocab = 256000,
                                                           .hidden = 3072,
                                                           .intermediate = 24576,
                                                           .layers = 28,
                                                           .heads = 16,
                                                           .kv_heads = 16,
                                                           .head_dim = 256,
                                                           .positions = 8192}),
                               hf_gemma2(ModelKind::gemma2, 256000, 8192),
                               hf_gemma3(),
                               hf_granite(),
                               hf_olmo2(),
                               hf_mixtral(),
                               hf_qwen3_moe(),
                               hf_internlm2()};
  TROUPE_ASSERT(std::size(kKinds) == model_kinds().size());
  return kKinds[static_cast<std::size_t>(kind)];
}

}  // namespace troupe::stages
