#include <fmt/format.h>

#include <string_view>

#include "stages/model/model_config.h"

namespace troupe::stages {
namespace {

using tensor::Shape;

/// Collects parameters in canonical order.
class ParameterList {
 public:
  /// Parameters that follow belong to this module, and to this layer.
  void begin(Module module, int layer) {
    module_ = module;
    layer_ = layer;
  }
  ParameterInfo& add(Field field, std::string name, const Shape& shape, Split split = Split::none) {
    const StoredAs stored{.tensor = name, .rows = shape[0]};
    return all_.emplace_back(ParameterInfo{.name = std::move(name),
                                           .shape = shape,
                                           .layer = layer_,
                                           .module = module_,
                                           .field = field,
                                           .split = split,
                                           .stored = stored});
  }
  /// A parameter of the product that the one before it is of.
  void add_joined(Field field, std::string name, const Shape& shape, Split split) {
    add(field, std::move(name), shape, split).is_joined = true;
  }
  /// A matrix [out, in] which files hold as [in, out].
  void add_conv1d(Field field, std::string name, const Shape& shape, Split split) {
    add(field, std::move(name), shape, split).stored.transposed = true;
  }
  /// q, k and v, each of this shape, whose rows follow each other in one tensor of files.
  void add_qkv(Field field, const std::string& module, std::string_view suffix,
               const Shape& shape) {
    const std::string tensor = fmt::format("{}.{}", module, suffix);
    std::int64_t row = 0;
    for (const char* part : {"q", "k", "v"}) {
      ParameterInfo& info =
          add(field, fmt::format("{}.{}.{}", module, part, suffix), shape, Split::rows);
      info.is_joined = row > 0;
      info.stored = {.tensor = tensor,
                     .first_row = row,
                     .rows = 3 * shape[0],
                     .transposed = shape.rank() == 2};
      row += shape[0];
    }
  }
  std::vector<ParameterInfo> take() { return std::move(all_); }

 private:
  Module module_ = Module::embedding;
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
  list.begin(Module::attention_norm, layer);
  list.add(Field::weight, name("input_layernorm.weight"), {width});
  list.begin(Module::attention, layer);
  list.add(Field::weight, name("self_attn.q_proj.weight"), {queries, width}, Split::rows);
  list.add_joined(Field::weight, name("self_attn.k_proj.weight"), {keys, width}, Split::kv_rows);
  list.add_joined(Field::weight, name("self_attn.v_proj.weight"), {keys, width}, Split::kv_rows);
  if (c.attention_bias) {
    list.add(Field::bias, name("self_attn.q_proj.bias"), {queries}, Split::rows);
    list.add_joined(Field::bias, name("self_attn.k_proj.bias"), {keys}, Split::kv_rows);
    list.add_joined(Field::bias, name("self_attn.v_proj.bias"), {keys}, Split::kv_rows);
  }
  list.add(Field::out_weight, name("self_attn.o_proj.weight"), {width, queries}, Split::columns);
  if (c.attention_bias) list.add(Field::out_bias, name("self_attn.o_proj.bias"), {width});
  list.begin(Module::feed_forward_norm, layer);
  list.add(Field::weight, name("post_attention_layernorm.weight"), {width});
  list.begin(Module::feed_forward, layer);
  list.add(Field::weight, name("mlp.gate_proj.weight"), {inner, width}, Split::rows);
  list.add_joined(Field::weight, name("mlp.up_proj.weight"), {inner, width}, Split::rows);
  if (c.mlp_bias) {
    list.add(Field::bias, name("mlp.gate_proj.bias"), {inner}, Split::rows);
    list.add_joined(Field::bias, name("mlp.up_proj.bias"), {inner}, Split::rows);
  }
  list.add(Field::out_weight, name("mlp.down_proj.weight"), {width, inner}, Split::columns);
  if (c.mlp_bias) list.add(Field::out_bias, name("mlp.down_proj.bias"), {width});
}

std::vector<ParameterInfo> llama_parameters(const ModelConfig& c) {
  const Shape table{c.vocab_size, c.hidden_size};
  const int layers = static_cast<int>(c.num_hidden_layers);
  ParameterList list;
  list.begin(Module::embedding, kEmbeddingLayer);
  list.add(Field::weight, "model.embed_tokens.weight", table, Split::vocab_rows);
  for (int layer = 0; layer < layers; ++layer) add_llama_layer(c, layer, list);
  list.begin(Module::final_norm, layers);
  list.add(Field::weight, "model.norm.weight", {c.hidden_size});
  list.begin(Module::head, layers);
  if (c.value_head) {
    list.add(Field::weight, "score.weight", {1, c.hidden_size});
    if (c.value_head_bias) list.add(Field::bias, "score.bias", {1});
    return list.take();
  }
  if (!c.tie_word_embeddings) list.add(Field::weight, "lm_head.weight", table, Split::vocab_rows);
  return list.take();
}

void add_gpt2_layer(const ModelConfig& c, int layer, ParameterList& list) {
  const std::int64_t width = c.hidden_size, inner = c.intermediate_size;
  const auto name = [&](std::string_view part) {
    return fmt::format("transformer.h.{}.{}", layer, part);
  };
  list.begin(Module::attention_norm, layer);
  list.add(Field::weight, name("ln_1.weight"), {width});
  list.add(Field::bias, name("ln_1.bias"), {width});
  list.begin(Module::attention, layer);
  list.add_qkv(Field::weight, name("attn.c_attn"), "weight", {width, width});
  list.add_qkv(Field::bias, name("attn.c_attn"), "bias", {width});
  list.add_conv1d(Field::out_weight, name("attn.c_proj.weight"), {width, width}, Split::columns);
  list.add(Field::out_bias, name("attn.c_proj.bias"), {width});
  list.begin(Module::feed_forward_norm, layer);
  list.add(Field::weight, name("ln_2.weight"), {width});
  list.add(Field::bias, name("ln_2.bias"), {width});
  list.begin(Module::feed_forward, layer);
  list.add_conv1d(Field::weight, name("mlp.c_fc.weight"), {inner, width}, Split::rows);
  list.add(Field::bias, name("mlp.c_fc.bias"), {inner}, Split::rows);
  list.add_conv1d(Field::out_weight, name("mlp.c_proj.weight"), {width, inner}, Split::columns);
  list.add(Field::out_bias, name("mlp.c_proj.bias"), {width});
}

std::vector<ParameterInfo> gpt2_parameters(const ModelConfig& c) {
  const Shape table{c.vocab_size, c.hidden_size};
  const int layers = static_cast<int>(c.num_hidden_layers);
  ParameterList list;
  list.begin(Module::embedding, kEmbeddingLayer);
  list.add(Field::weight, "transformer.wte.weight", table, Split::vocab_rows);
  for (int layer = 0; layer < layers; ++layer) add_gpt2_layer(c, layer, list);
  list.begin(Module::final_norm, layers);
  list.add(Field::weight, "transformer.ln_f.weight", {c.hidden_size});
  list.add(Field::bias, "transformer.ln_f.bias", {c.hidden_size});
  list.begin(Module::head, layers);
  if (!c.tie_word_embeddings) list.add(Field::weight, "lm_head.weight", table, Split::vocab_rows);
  // Not beside the embedding, because the head's copy of a tied embedding comes without it.
  list.begin(Module::embedding, kPositionsLayer);
  list.add(Field::positions, "transformer.wpe.weight", {c.max_position_embeddings, c.hidden_size});
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
