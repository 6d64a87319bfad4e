#include "stages/model/model_config.h"

#include <fmt/format.h>

#include <cmath>
#include <initializer_list>
#include <string_view>
#include <utility>

#include "tensor/errors/error.h"

namespace troupe::stages {
namespace {

using tensor::FieldFault;

// A matrix has at most 2^44 elements, a layer seven of them, or three of at most 2^40 for all its
// experts together, and there are at most 2^12 layers.
constexpr std::int64_t kMaxSize = std::int64_t{1} << 20;
constexpr std::int64_t kMaxVocab = std::int64_t{1} << 24;
constexpr std::int64_t kMaxLayers = std::int64_t{1} << 12;
constexpr std::int64_t kMaxExperts = std::int64_t{1} << 18;  // of all layers together

struct Range {
  std::string_view name;
  const std::int64_t& field;
  std::int64_t largest;
};

FieldFault check_range(const Range& range) {
  if (range.field >= 1 && range.field <= range.largest) return {};
  return {&range.field,
          fmt::format("{} = {} must lie between 1 and {}", range.name, range.field, range.largest)};
}

/// The divisors of `whole` next to `wrong`: "3 or 6".
std::string nearest_divisors(std::int64_t whole, std::int64_t wrong) {
  std::int64_t below = 0;
  std::int64_t above = 0;
  for (std::int64_t d = 1; d <= whole; ++d) {
    if (whole % d != 0) continue;
    if (d < wrong) below = d;
    if (d > wrong && above == 0) above = d;
  }
  if (below == 0) return fmt::format("{}", above);
  if (above == 0) return fmt::format("{}", below);
  return fmt::format("{} or {}", below, above);
}

FieldFault check_sizes(const ModelConfig& c) {
  for (const Range& range : {Range{"hidden_size", c.hidden_size, kMaxSize},
                             Range{"intermediate_size", c.intermediate_size, kMaxSize},
                             Range{"num_hidden_layers", c.num_hidden_layers, kMaxLayers},
                             Range{"num_attention_heads", c.num_attention_heads, kMaxSize},
                             Range{"num_key_value_heads", c.num_key_value_heads, kMaxSize},
                             Range{"vocab_size", c.vocab_size, kMaxVocab}}) {
    if (auto why = check_range(range); !why.empty()) return why;
  }
  return check_range({"max_position_embeddings", c.max_position_embeddings, kMaxSize});
}

FieldFault check_heads(const ModelConfig& c) {
  if (c.hidden_size % c.num_attention_heads != 0) {
    return {&c.num_attention_heads,
            fmt::format("num_attention_heads = {} must divide hidden_size = {}; nearest: {}",
                        c.num_attention_heads, c.hidden_size,
                        nearest_divisors(c.hidden_size, c.num_attention_heads))};
  }
  if (c.num_attention_heads % c.num_key_value_heads != 0) {
    return {
        &c.num_key_value_heads,
        fmt::format("num_key_value_heads = {} must divide num_attention_heads = {}; nearest: {}",
                    c.num_key_value_heads, c.num_attention_heads,
                    nearest_divisors(c.num_attention_heads, c.num_key_value_heads))};
  }
  const std::int64_t largest = kMaxSize / c.num_attention_heads;
  if (auto why = check_range({"head_dim", c.head_dim, largest}); !why.empty()) return why;
  return traits_of(c.kind).check(c);
}

FieldFault check_head(const ModelConfig& c) {
  if (!c.value_head) return {};
  if (!traits_of(c.kind).allows_value_head)
    return {&c.value_head,
            fmt::format("value_head = true needs a model of kind llama, not {}", name_of(c.kind))};
  if (c.tie_word_embeddings)
    return {&c.tie_word_embeddings,
            "tie_word_embeddings = true cannot be with value_head = true, which has one output"};
  return {};
}

FieldFault check_numbers(const ModelConfig& c) {
  for (const auto& [name, field] : {std::pair("rms_norm_eps", &c.rms_norm_eps),
                                    std::pair("layer_norm_epsilon", &c.layer_norm_epsilon)})
    if (!(*field > 0 && *field < 1))
      return {field, fmt::format("{} = {} must lie between 0 and 1; usual: 1e-5", name, *field)};
  if (!(c.initializer_range >= 0 && std::isfinite(c.initializer_range))) {
    return {&c.initializer_range,
            fmt::format("initializer_range = {} must not be negative; usual: 0.02",
                        c.initializer_range)};
  }
  for (const auto& [name, field] : {std::pair{"hidden_dropout", &c.hidden_dropout},
                                    {"attention_dropout", &c.attention_dropout}})
    if (!(*field >= 0 && *field < 1))
      return {field,
              fmt::format("{} = {} must be at least 0 and below 1; usual: 0.1", name, *field)};
  if (c.dtype != tensor::DType::f32 && c.dtype != tensor::DType::bf16) {
    return {&c.dtype,
            fmt::format("dtype = {} must be float32 or bfloat16", tensor::name_of(c.dtype))};
  }
  return {};
}

FieldFault check_layers(const ModelConfig& c) {
  const auto fault = [&](const void* field, std::string_view name, std::size_t size) -> FieldFault {
    return {field, fmt::format("{} has {} items, but num_hidden_layers is {}", name, size,
                               c.num_hidden_layers)};
  };
  const auto layers = static_cast<std::size_t>(c.num_hidden_layers);
  if (!c.layer_types.empty() && c.layer_types.size() != layers)
    return fault(&c.layer_types, "layer_types", c.layer_types.size());
  if (!c.no_rope_layers.empty() && c.no_rope_layers.size() != layers)
    return fault(&c.no_rope_layers, "no_rope_layers", c.no_rope_layers.size());
  if (c.sliding_window != 0)
    if (auto why = check_range({"sliding_window", c.sliding_window, kMaxVocab}); !why.empty())
      return why;
  if (!c.local_rotary) return {};
  FieldFault local = tensor::check_rotary(*c.local_rotary, c.head_dim);
  if (!local.empty()) local = {&c.local_rotary, "of layers with a window, " + local.sentence};
  return local;
}

/// What is wrong with the experts of a layer.
FieldFault check_expert_sizes(const ModelConfig& c) {
  const Experts& e = c.experts;
  const Range count{"num_experts", e.count, kMaxExperts / c.num_hidden_layers};
  if (auto why = check_range(count); !why.empty()) return why;
  for (const Range& range : {Range{"num_experts_per_tok", e.per_token, e.count},
                             Range{"moe_intermediate_size", e.width, kMaxSize / e.count},
                             Range{"decoder_sparse_step", e.sparse_step, kMaxLayers}})
    if (auto why = check_range(range); !why.empty()) return why;
  return {};
}

FieldFault check_experts(const ModelConfig& c) {
  const Experts& e = c.experts;
  if (!traits_of(c.kind).has_experts) {
    if (e == Experts{}) return {};
    return {&e.count, fmt::format("num_experts = {} needs a model of kind mixtral or qwen3_moe, "
                                  "not {}",
                                  e.count, name_of(c.kind))};
  }
  if (auto why = check_expert_sizes(c); !why.empty()) return why;
  for (const int layer : e.dense_layers)
    if (layer < 0 || layer >= c.num_hidden_layers)
      return {&e.dense_layers, fmt::format("mlp_only_layers has {}, but layers are 0 to {}", layer,
                                           c.num_hidden_layers - 1)};
  for (const auto& [name, field] : {std::pair("router_aux_loss_coef", &e.aux_loss_coef),
                                    {"router_z_loss_coef", &e.z_loss_coef}})
    if (!(*field >= 0 && std::isfinite(*field)))
      return {field, fmt::format("{} = {} must not be negative; usual: 0.001", name, *field)};
  if (e.capacity < 0)
    return {&e.capacity,
            fmt::format("expert_capacity = {} must not be negative; 0: no bound", e.capacity)};
  return {};
}

FieldFault check_scales(const ModelConfig& c) {
  if (c.query_pre_attn_scalar != 0)
    if (auto why = check_range({"query_pre_attn_scalar", c.query_pre_attn_scalar, kMaxSize});
        !why.empty())
      return why;
  for (const auto& [name, field] : {std::pair("attn_logit_softcapping", &c.attn_logit_softcapping),
                                    {"final_logit_softcapping", &c.final_logit_softcapping}})
    if (!(*field >= 0 && std::isfinite(*field)))
      return {field, fmt::format("{} = {} must be above 0, or 0 for none", name, *field)};
  for (const auto& [name, field] : {std::pair("embedding_multiplier", &c.embedding_multiplier),
                                    {"attention_multiplier", &c.attention_multiplier},
                                    {"residual_multiplier", &c.residual_multiplier},
                                    {"logits_scaling", &c.logits_scaling}})
    if (!std::isfinite(*field) || (*field == 0 && field != &c.attention_multiplier))
      return {field, fmt::format("{} = {} must be finite and not 0; usual: 1", name, *field)};
  return {};
}

}  // namespace

std::optional<tensor::Rotary> rotary_of(const ModelConfig& config) {
  if (traits_of(config.kind).learns_positions) return std::nullopt;
  return config.rotary;
}

FieldFault check_model(const ModelConfig& config) {
  for (const auto check : {check_sizes, check_experts, check_heads, check_head, check_numbers,
                           check_layers, check_scales, check_adapter}) {
    if (auto why = check(config); !why.empty()) return why;
  }
  return {};
}

}  // namespace troupe::stages
