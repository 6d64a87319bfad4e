#include <fmt/format.h>

#include <string_view>

#include "stages/model/model_config.h"

namespace troupe::stages {
namespace {

using tensor::Shape;

/// Collects parameters in canonical order.
class ParameterList {
 public:
  /// Parameters that follow belong to this layer.
  void begin_layer(int layer) { layer_ = layer; }
  void add(std::string name, const Shape& shape, Split split = Split::none) {
    const StoredAs stored{.tensor = name, .rows = shape[0]};
    all_.push_back({std::move(name), shape, layer_, split, false, stored});
  }
  /// A parameter of the product that the one before it is of.
  void add_joined(std::string name, const Shape& shape, Split split) {
    add(std::move(name), shape, split);
    all_.back().is_joined = true;
  }
  /// A matrix [out, in] which files hold as [in, out].
  void add_conv1d(std::string name, const Shape& shape, Split split) {
    add(std::move(name), shape, split);
    all_.back().stored.transposed = true;
  }
  /// q, k and v, each of this shape, whose rows follow each other in one tensor of files.
  void add_qkv(const std::string& module, std::string_view field, const Shape& shape) {
    const std::string tensor = fmt::format("{}.{}", module, field);
    std::int64_t row = 0;
    for (const char* part : {"q", "k", "v"}) {
      add(fmt::format("{}.{}.{}", module, part, field), shape, Split::rows);
      all_.back().is_joined = row > 0;
      all_.back().stored = {.tensor = tensor,
                            .first_row = row,
                            .rows = 3 * shape[0],
                            .transposed = shape.rank() == 2};
      row += shape[0];
    }
  }
  std::vector<ParameterInfo> take() { return std::move(all_); }

 private:
  int layer_ = 0;
  std::vector<ParameterInfo> all_;
};

void add_llama_layer(const ModelConfig& c, int layer, ParameterList& list) {
  const std::int64_t queries = c.num_attention_heads * c.head_dim;
  const std::int64_t keys = c.num_key_value_heads * c.head_dim;
  const std::int64_t width = c.hidden_size, inner = c.intermediate_size;
  const auto name = [&](std::string_view part) {
    return fmt::format("model.layers.{}.{}", layer, part);
  };
  list.begin_layer(layer);
  list.add(name("input_layernorm.weight"), {width});
  list.add(name("self_attn.q_proj.weight"), {queries, width}, Split::rows);
  list.add_joined(name("self_attn.k_proj.weight"), {keys, width}, Split::kv_rows);
  list.add_joined(name("self_attn.v_proj.weight"), {keys, width}, Split::kv_rows);
  if (c.attention_bias) {
    list.add(name("self_attn.q_proj.bias"), {queries}, Split::rows);
    list.add_joined(name("self_attn.k_proj.bias"), {keys}, Split::kv_rows);
    list.add_joined(name("self_attn.v_proj.bias"), {keys}, Split::kv_rows);
  }
  list.add(name("self_attn.o_proj.weight"), {width, queries}, Split::columns);
  if (c.attention_bias) list.add(name("self_attn.o_proj.bias"), {width});
  list.add(name("post_attention_layernorm.weight"), {width});
  list.add(name("mlp.gate_proj.weight"), {inner, width}, Split::rows);
  list.add_joined(name("mlp.up_proj.weight"), {inner, width}, Split::rows);
  if (c.mlp_bias) {
    list.add(name("mlp.gate_proj.bias"), {inner}, Split::rows);
    list.add_joined(name("mlp.up_proj.bias"), {inner}, Split::rows);
  }
  list.add(name("mlp.down_proj.weight"), {width, inner}, Split::columns);
  if (c.mlp_bias) list.add(name("mlp.down_proj.bias"), {width});
}

std::vector<ParameterInfo> llama_parameters(const ModelConfig& c) {
  const Shape table{c.vocab_size, c.hidden_size};
  const int layers = static_cast<int>(c.num_hidden_layers);
  ParameterList list;
  list.begin_layer(kEmbeddingLayer);
  list.add("model.embed_tokens.weight", table, Split::vocab_rows);
  for (int layer = 0; layer < layers; ++layer) add_llama_layer(c, layer, list);
  list.begin_layer(layers);
  list.add("model.norm.weight", {c.hidden_size});
  if (c.value_head) {
    list.add("score.weight", {1, c.hidden_size});
    if (c.value_head_bias) list.add("score.bias", {1});
    return list.take();
  }
  if (!c.tie_word_embeddings) list.add("lm_head.weight", table, Split::vocab_rows);
  return list.take();
}

void add_gpt2_layer(const ModelConfig& c, int layer, ParameterList& list) {
  const std::int64_t width = c.hidden_size, inner = c.intermediate_size;
  const auto name = [&](std::string_view part) {
    return fmt::format("transformer.h.{}.{}", layer, part);
  };
  list.begin_layer(layer);
  list.add(name("ln_1.weight"), {width});
  list.add(name("ln_1.bias"), {width});
  list.add_qkv(name("attn.c_attn"), "weight", {width, width});
  list.add_qkv(name("attn.c_attn"), "bias", {width});
  list.add_conv1d(name("attn.c_proj.weight"), {width, width}, Split::columns);
  list.add(name("attn.c_proj.bias"), {width});
  list.add(name("ln_2.weight"), {width});
  list.add(name("ln_2.bias"), {width});
  list.add_conv1d(name("mlp.c_fc.weight"), {inner, width}, Split::rows);
  list.add(name("mlp.c_fc.bias"), {inner}, Split::rows);
  list.add_conv1d(name("mlp.c_proj.weight"), {width, inner}, Split::columns);
  list.add(name("mlp.c_proj.bias"), {width});
}

std::vector<ParameterInfo> gpt2_parameters(const ModelConfig& c) {
  const Shape table{c.vocab_size, c.hidden_size};
  const int layers = static_cast<int>(c.num_hidden_layers);
  ParameterList list;
  list.begin_layer(kEmbeddingLayer);
  list.add("transformer.wte.weight", table, Split::vocab_rows);
  for (int layer = 0; layer < layers; ++layer) add_gpt2_layer(c, layer, list);
  list.begin_layer(layers);
  list.add("transformer.ln_f.weight", {c.hidden_size});
  list.add("transformer.ln_f.bias", {c.hidden_size});
  if (!c.tie_word_embeddings) list.add("lm_head.weight", table, Split::vocab_rows);
  // Not beside the embedding, because the head's copy of a tied embedding comes without it.
  list.begin_layer(kPositionsLayer);
  list.add("transformer.wpe.weight", {c.max_position_embeddings, c.hidden_size});
  return list.take();
}

}  // namespace

std::vector<ParameterInfo> parameters_of(const ModelConfig& config) {
  auto all = config.kind == ModelKind::gpt2 ? gpt2_parameters(config) : llama_parameters(config);
  for (ParameterInfo& info : all)
    if (const auto* group = group_of(info.stored.tensor, config.groups))
      info.update = group->update;
  return all;
}

std::map<std::string, ParameterInfo> parameters_by_name(const ModelConfig& config) {
  std::map<std::string, ParameterInfo> by_name;
  for (ParameterInfo& info : parameters_of(config)) by_name.emplace(info.name, std::move(info));
  return by_name;
}

std::int64_t num_parameters(const ModelConfig& config) {
  std::int64_t count = 0;
  for (const ParameterInfo& info : parameters_of(config)) count += info.shape.num_elements();
  return count;
}

std::int64_t num_trained_parameters(const ModelConfig& config) {
  std::int64_t count = 0;
  for (const ParameterInfo& info : parameters_of(config))
    if (!info.update.frozen) count += info.shape.num_elements();
  return count;
}

}  // namespace troupe::stages
