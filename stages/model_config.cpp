#include "stages/model_config.h"

#include <fmt/format.h>

#include <cmath>
#include <initializer_list>
#include <string_view>

namespace troupe::stages {
namespace {

// A matrix has at most 2^44 elements, a layer seven of them, and there are at most 2^12 layers.
constexpr std::int64_t kMaxSize = std::int64_t{1} << 20;
constexpr std::int64_t kMaxVocab = std::int64_t{1} << 24;
constexpr std::int64_t kMaxLayers = std::int64_t{1} << 12;

struct Range {
  std::string_view field;
  std::int64_t value;
  std::int64_t largest;
};

std::string check_range(const Range& range) {
  if (range.value >= 1 && range.value <= range.largest) return {};
  return fmt::format("{} = {} must lie between 1 and {}", range.field, range.value, range.largest);
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

std::string check_sizes(const ModelConfig& c) {
  for (const Range& range : {Range{"hidden_size", c.hidden_size, kMaxSize},
                             Range{"intermediate_size", c.intermediate_size, kMaxSize},
                             Range{"num_hidden_layers", c.num_hidden_layers, kMaxLayers},
                             Range{"num_attention_heads", c.num_attention_heads, kMaxSize},
                             Range{"num_key_value_heads", c.num_key_value_heads, kMaxSize},
                             Range{"vocab_size", c.vocab_size, kMaxVocab}}) {
    if (auto why = check_range(range); !why.empty()) return why;
  }
  return {};
}

std::string check_heads(const ModelConfig& c) {
  if (c.hidden_size % c.num_attention_heads != 0) {
    return fmt::format("num_attention_heads = {} must divide hidden_size = {}; nearest: {}",
                       c.num_attention_heads, c.hidden_size,
                       nearest_divisors(c.hidden_size, c.num_attention_heads));
  }
  if (c.num_attention_heads % c.num_key_value_heads != 0) {
    return fmt::format("num_key_value_heads = {} must divide num_attention_heads = {}; nearest: {}",
                       c.num_key_value_heads, c.num_attention_heads,
                       nearest_divisors(c.num_attention_heads, c.num_key_value_heads));
  }
  const std::int64_t largest = kMaxSize / c.num_attention_heads;
  if (auto why = check_range({"head_dim", c.head_dim, largest}); !why.empty()) return why;
  if (c.head_dim % 2 != 0) {
    return fmt::format("head_dim = {} must be even, as rotary embedding turns pairs; nearest: {}",
                       c.head_dim, c.head_dim + 1);
  }
  return {};
}

std::string check_numbers(const ModelConfig& c) {
  if (!(c.rms_norm_eps > 0 && c.rms_norm_eps < 1)) {
    return fmt::format("rms_norm_eps = {} must lie between 0 and 1; usual: 1e-5", c.rms_norm_eps);
  }
  if (!(c.rope_theta >= 1 && std::isfinite(c.rope_theta))) {
    return fmt::format("rope_theta = {} must be at least 1; usual: 10000", c.rope_theta);
  }
  if (!(c.initializer_range >= 0 && std::isfinite(c.initializer_range))) {
    return fmt::format("initializer_range = {} must not be negative; usual: 0.02",
                       c.initializer_range);
  }
  if (c.dtype != tensor::DType::f32 && c.dtype != tensor::DType::bf16) {
    return fmt::format("dtype = {} must be float32 or bfloat16", tensor::name_of(c.dtype));
  }
  return {};
}

void add_layer(const ModelConfig& c, int layer, std::vector<ParameterInfo>& out) {
  const std::int64_t queries = c.num_attention_heads * c.head_dim;
  const std::int64_t keys = c.num_key_value_heads * c.head_dim;
  const auto add = [&](std::string_view name, tensor::Shape shape, Split split = Split::none) {
    out.push_back({fmt::format("model.layers.{}.{}.weight", layer, name), shape, layer, split});
  };
  add("input_layernorm", {c.hidden_size});
  add("self_attn.q_proj", {queries, c.hidden_size}, Split::rows);
  add("self_attn.k_proj", {keys, c.hidden_size}, Split::kv_rows);
  add("self_attn.v_proj", {keys, c.hidden_size}, Split::kv_rows);
  add("self_attn.o_proj", {c.hidden_size, queries}, Split::columns);
  add("post_attention_layernorm", {c.hidden_size});
  add("mlp.gate_proj", {c.intermediate_size, c.hidden_size}, Split::rows);
  add("mlp.up_proj", {c.intermediate_size, c.hidden_size}, Split::rows);
  add("mlp.down_proj", {c.hidden_size, c.intermediate_size}, Split::columns);
}

}  // namespace

std::string check_model(const ModelConfig& config) {
  for (const auto check : {check_sizes, check_heads, check_numbers}) {
    if (auto why = check(config); !why.empty()) return why;
  }
  return {};
}

std::vector<ParameterInfo> parameters_of(const ModelConfig& config) {
  const tensor::Shape table{config.vocab_size, config.hidden_size};
  const int layers = static_cast<int>(config.num_hidden_layers);
  std::vector<ParameterInfo> out;
  out.push_back({"model.embed_tokens.weight", table, -1, Split::vocab_rows});
  for (int layer = 0; layer < layers; ++layer) add_layer(config, layer, out);
  out.push_back({"model.norm.weight", {config.hidden_size}, layers});
  if (!config.tie_word_embeddings)
    out.push_back({"lm_head.weight", table, layers, Split::vocab_rows});
  return out;
}

std::int64_t num_parameters(const ModelConfig& config) {
  std::int64_t count = 0;
  for (const ParameterInfo& info : parameters_of(config)) count += info.shape.num_elements();
  return count;
}

}  // namespace troupe::stages
