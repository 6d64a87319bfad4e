#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <string_view>

#include "stages/model/computation.h"
#include "stages/model/model_config.h"
#include "tensor/errors/error.h"

namespace troupe::stages {
namespace {

using tensor::Shape;

/// Collects parameters in canonical order.
class ParameterList {
 public:
  /// Parameters that follow belong to this module, and to this layer; their names begin so.
  void begin(Module module, int layer, std::string prefix) {
    module_ = module;
    layer_ = layer;
    prefix_ = std::move(prefix);
  }
  ParameterInfo& add(Field field, std::string_view name, const Shape& shape,
                     Split split = Split::none) {
    const std::string whole = fmt::format("{}{}", prefix_, name);
    return all_.emplace_back(ParameterInfo{.name = whole,
                                           .shape = shape,
                                           .layer = layer_,
                                           .module = module_,
                                           .field = field,
                                           .split = split,
                                           .stored = StoredAs{.tensor = whole, .rows = shape[0]}});
  }
  /// A parameter of the product that the one before it is of.
  void add_joined(Field field, std::string_view name, const Shape& shape, Split split) {
    add(field, name, shape, split).is_joined = true;
  }
  /// A matrix [out, in] which files hold as [in, out].
  void add_conv1d(Field field, std::string_view name, const Shape& shape, Split split) {
    add(field, name, shape, split).stored.transposed = true;
  }
  /// A part of a tensor of files, that has others too.
  struct Part {
    const char* name;
    std::int64_t rows;
    Split split;
  };
  /// Parameters of one product, the rows of each after those of the one before in one tensor. They
  /// are vectors, or matrices of so many columns.
  void add_parts(Field field, std::string_view name, std::string_view suffix,
                 std::initializer_list<Part> parts, std::optional<std::int64_t> columns,
                 bool transposed) {
    std::int64_t rows = 0, row = 0;
    for (const Part& part : parts) rows += part.rows;
    for (const Part& part : parts) {
      ParameterInfo& info =
          add(field, fmt::format("{}.{}.{}", name, part.name, suffix),
              columns ? Shape{part.rows, *columns} : Shape{part.rows}, part.split);
      info.is_joined = row > 0;
      info.stored = {.tensor = fmt::format("{}{}.{}", prefix_, name, suffix),
                     .first_row = row,
                     .rows = rows,
                     .transposed = transposed};
      row += part.rows;
    }
  }
  int layer() const { return layer_; }
  /// The same of parts whose rows lie in turns: those of a group of each part, then those of the
  /// next group.
  void add_parts_in_turns(Field field, std::string_view name, std::string_view suffix,
                          std::initializer_list<Part> parts, std::optional<std::int64_t> columns,
                          std::int64_t groups) {
    const std::size_t first = all_.size();
    add_parts(field, name, suffix, parts, columns, false);
    for (std::size_t i = first; i < all_.size(); ++i) {
      StoredAs& stored = all_[i].stored;
      stored.first_row /= groups;
      stored.turn_rows = all_[i].shape[0] / groups;
      stored.turn_stride = stored.rows / groups;
    }
  }
  std::vector<ParameterInfo> take() { return std::move(all_); }

 private:
  Module module_ = Module::embedding;
  int layer_ = 0;
  std::string prefix_;
  std::vector<ParameterInfo> all_;
};

/// The outputs of attention's first products.
struct Widths {
  explicit Widths(const ModelConfig& c)
      : queries(c.num_attention_heads * c.head_dim), keys(c.num_key_value_heads * c.head_dim) {}
  std::int64_t queries, keys;
};

/// The norms of queries and of keys.
void add_head_norms(const ModelConfig& c, ParameterList& list) {
  const Widths widths(c);
  switch (traits_of(c.kind).head_norm) {
    case HeadNorm::none:
      return;
    case HeadNorm::each_head:
      list.add(Field::query_norm, "q_norm.weight", {c.head_dim}, Split::heads);
      list.add(Field::key_norm, "k_norm.weight", {c.head_dim}, Split::heads);
      return;
    case HeadNorm::whole_width:
      list.add(Field::query_norm, "q_norm.weight", {widths.queries}, Split::rows);
      list.add(Field::key_norm, "k_norm.weight", {widths.keys}, Split::kv_rows);
      return;
  }
}

void add_llama_attention(const ModelConfig& c, ParameterList& list) {
  const auto [queries, keys] = Widths(c);
  const std::int64_t width = c.hidden_size;
  const bool biases_qkv_only = traits_of(c.kind).biases_qkv_only;
  list.add(Field::weight, "q_proj.weight", {queries, width}, Split::rows);
  list.add_joined(Field::weight, "k_proj.weight", {keys, width}, Split::kv_rows);
  list.add_joined(Field::weight, "v_proj.weight", {keys, width}, Split::kv_rows);
  if (c.attention_bias || biases_qkv_only) {
    list.add(Field::bias, "q_proj.bias", {queries}, Split::rows);
    list.add_joined(Field::bias, "k_proj.bias", {keys}, Split::kv_rows);
    list.add_joined(Field::bias, "v_proj.bias", {keys}, Split::kv_rows);
  }
  add_head_norms(c, list);
  list.add(Field::out_weight, "o_proj.weight", {width, queries}, Split::columns);
  if (c.attention_bias && !biases_qkv_only) list.add(Field::out_bias, "o_proj.bias", {width});
}

void add_llama_feed_forward(const ModelConfig& c, ParameterList& list) {
  const std::int64_t width = c.hidden_size, inner = c.intermediate_size;
  list.add(Field::weight, "gate_proj.weight", {inner, width}, Split::rows);
  list.add_joined(Field::weight, "up_proj.weight", {inner, width}, Split::rows);
  if (c.mlp_bias) {
    list.add(Field::bias, "gate_proj.bias", {inner}, Split::rows);
    list.add_joined(Field::bias, "up_proj.bias", {inner}, Split::rows);
  }
  list.add(Field::out_weight, "down_proj.weight", {width, inner}, Split::columns);
  if (c.mlp_bias) list.add(Field::out_bias, "down_proj.bias", {width});
}

/// How files name the matrices of an expert.
struct ExpertNames {
  const char *gate, *up, *down;
};

void add_experts(const ModelConfig& c, ParameterList& list, const ExpertNames& names) {
  const std::int64_t width = c.hidden_size, inner = c.experts.width;
  const auto add = [&](int expert, Field field, const char* name, const Shape& shape, Split split,
                       bool is_first) {
    ParameterInfo& info =
        list.add(field, fmt::format("experts.{}.{}.weight", expert, name), shape, split);
    info.is_joined = !is_first;
    info.expert = expert;
  };
  // Each shard computes a part of what its gradient follows from, the products of the weights.
  list.add(Field::router, "gate.weight", {c.experts.count, width}, Split::heads);
  const int count = static_cast<int>(c.experts.count);
  for (int e = 0; e < count; ++e) {
    add(e, Field::weight, names.gate, {inner, width}, Split::rows, e == 0);
    add(e, Field::weight, names.up, {inner, width}, Split::rows, false);
  }
  for (int e = 0; e < count; ++e)
    add(e, Field::out_weight, names.down, {width, inner}, Split::columns, e == 0);
}

void add_mixtral_feed_forward(const ModelConfig& c, ParameterList& list) {
  add_experts(c, list, {"w1", "w3", "w2"});
}

void add_qwen3_moe_feed_forward(const ModelConfig& c, ParameterList& list) {
  if (!is_routed(c, list.layer())) return add_llama_feed_forward(c, list);
  add_experts(c, list, {"gate_proj", "up_proj", "down_proj"});
}

void add_phi3_attention(const ModelConfig& c, ParameterList& list) {
  const auto [queries, keys] = Widths(c);
  list.add_parts(
      Field::weight, "qkv_proj", "weight",
      {{"q", queries, Split::rows}, {"k", keys, Split::kv_rows}, {"v", keys, Split::kv_rows}},
      c.hidden_size, false);
  list.add(Field::out_weight, "o_proj.weight", {c.hidden_size, queries}, Split::columns);
}

void add_phi3_feed_forward(const ModelConfig& c, ParameterList& list) {
  const std::int64_t width = c.hidden_size, inner = c.intermediate_size;
  list.add_parts(Field::weight, "gate_up_proj", "weight",
                 {{"gate", inner, Split::rows}, {"up", inner, Split::rows}}, width, false);
  list.add(Field::out_weight, "down_proj.weight", {width, inner}, Split::columns);
}

void add_internlm2_attention(const ModelConfig& c, ParameterList& list) {
  const auto [queries, keys] = Widths(c);
  const auto parts = {ParameterList::Part{"q", queries, Split::rows},
                      {"k", keys, Split::kv_rows},
                      {"v", keys, Split::kv_rows}};
  const std::int64_t groups = c.num_key_value_heads;
  list.add_parts_in_turns(Field::weight, "wqkv", "weight", parts, c.hidden_size, groups);
  if (c.attention_bias)
    list.add_parts_in_turns(Field::bias, "wqkv", "bias", parts, std::nullopt, groups);
  list.add(Field::out_weight, "wo.weight", {c.hidden_size, queries}, Split::columns);
  if (c.attention_bias) list.add(Field::out_bias, "wo.bias", {c.hidden_size});
}

void add_internlm2_feed_forward(const ModelConfig& c, ParameterList& list) {
  const std::int64_t width = c.hidden_size, inner = c.intermediate_size;
  list.add(Field::weight, "w1.weight", {inner, width}, Split::rows);
  list.add_joined(Field::weight, "w3.weight", {inner, width}, Split::rows);
  list.add(Field::out_weight, "w2.weight", {width, inner}, Split::columns);
}

void add_gpt2_attention(const ModelConfig& c, ParameterList& list) {
  const std::int64_t width = c.hidden_size;
  const auto parts = {ParameterList::Part{"q", width, Split::rows},
                      {"k", width, Split::rows},
                      {"v", width, Split::rows}};
  list.add_parts(Field::weight, "c_attn", "weight", parts, width, true);
  list.add_parts(Field::bias, "c_attn", "bias", parts, std::nullopt, false);
  list.add_conv1d(Field::out_weight, "c_proj.weight", {width, width}, Split::columns);
  list.add(Field::out_bias, "c_proj.bias", {width});
}

void add_gpt2_feed_forward(const ModelConfig& c, ParameterList& list) {
  const std::int64_t width = c.hidden_size, inner = c.intermediate_size;
  list.add_conv1d(Field::weight, "c_fc.weight", {inner, width}, Split::rows);
  list.add(Field::bias, "c_fc.bias", {inner}, Split::rows);
  list.add_conv1d(Field::out_weight, "c_proj.weight", {width, inner}, Split::columns);
  list.add(Field::out_bias, "c_proj.bias", {width});
}

/// How files name the modules of a kind, after the decoder's prefix, and what its sublayers have.
/// What a kind lacks has no name.
struct KindModules {
  const char *embedding, *positions, *layers, *final_norm;
  // Of a layer.
  const char *attention_norm, *attention, *attention_end_norm;
  const char *feed_forward_norm, *feed_forward, *feed_forward_end_norm;
  void (*add_attention)(const ModelConfig&, ParameterList&);
  void (*add_feed_forward)(const ModelConfig&, ParameterList&);
};

/// Llama's names with these for the norms.
constexpr KindModules modules_like_llama(const char* attention_norm, const char* attention_end_norm,
                                         const char* feed_forward_norm,
                                         const char* feed_forward_end_norm) {
  return {"embed_tokens",
          "",
          "layers",
          "norm",
          attention_norm,
          "self_attn",
          attention_end_norm,
          feed_forward_norm,
          "mlp",
          feed_forward_end_norm,
          add_llama_attention,
          add_llama_feed_forward};
}
constexpr KindModules fused(KindModules modules) {
  modules.add_attention = add_phi3_attention;
  modules.add_feed_forward = add_phi3_feed_forward;
  return modules;
}
constexpr KindModules with_experts(KindModules modules, const char* feed_forward, auto* add) {
  modules.feed_forward = feed_forward;
  modules.add_feed_forward = add;
  return modules;
}
constexpr KindModules kLlamaModules =
    modules_like_llama("input_layernorm", "", "post_attention_layernorm", "");
constexpr KindModules kGemma2Modules =
    modules_like_llama("input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm",
                       "post_feedforward_layernorm");
constexpr KindModules kOlmo2Modules =
    modules_like_llama("", "post_attention_layernorm", "", "post_feedforward_layernorm");
constexpr KindModules kGpt2Modules{"wte",
                                   "wpe",
                                   "h",
                                   "ln_f",
                                   "ln_1",
                                   "attn",
                                   "",
                                   "ln_2",
                                   "mlp",
                                   "",
                                   add_gpt2_attention,
                                   add_gpt2_feed_forward};
constexpr KindModules kInternlm2Modules{"tok_embeddings",
                                        "",
                                        "layers",
                                        "norm",
                                        "attention_norm",
                                        "attention",
                                        "",
                                        "ffn_norm",
                                        "feed_forward",
                                        "",
                                        add_internlm2_attention,
                                        add_internlm2_feed_forward};
constexpr KindModules kMixtralModules =
    with_experts(kLlamaModules, "block_sparse_moe", add_mixtral_feed_forward);
constexpr KindModules kQwen3MoeModules =
    with_experts(kLlamaModules, "mlp", add_qwen3_moe_feed_forward);
constexpr KindModules kModules[]{
    // by ModelKind
    kLlamaModules,        kGpt2Modules,  kLlamaModules,   kLlamaModules,    kLlamaModules,
    fused(kLlamaModules), kLlamaModules, kLlamaModules,   kGemma2Modules,   kGemma2Modules,
    kLlamaModules,        kOlmo2Modules, kMixtralModules, kQwen3MoeModules, kInternlm2Modules};

void add_head(const ModelConfig& c, ParameterList& list) {
  list.begin(Module::head, static_cast<int>(c.num_hidden_layers), "");
  if (c.value_head) {
    list.add(Field::weight, "score.weight", {1, c.hidden_size});
    if (c.value_head_bias) list.add(Field::bias, "score.bias", {1});
  } else if (!c.tie_word_embeddings) {
    list.add(Field::weight, traits_of(c.kind).head_name, {c.vocab_size, c.hidden_size},
             Split::vocab_rows);
  }
}

std::vector<ParameterInfo> all_parameters(const ModelConfig& c) {
  TROUPE_ASSERT(std::size(kModules) == model_kinds().size());
  const KindTraits& traits = traits_of(c.kind);
  const KindModules& names = kModules[static_cast<std::size_t>(c.kind)];
  ParameterList list;
  const auto begin = [&](Module module, int layer, const std::string& name) {
    list.begin(module, layer, fmt::format("{}{}.", traits.name_prefix, name));
  };
  const auto add_norm = [&](Module module, int layer, const std::string& name) {
    begin(module, layer, name);
    list.add(Field::weight, "weight", {c.hidden_size});
    if (traits.has_layer_norm) list.add(Field::bias, "bias", {c.hidden_size});
  };
  begin(Module::embedding, kEmbeddingLayer, names.embedding);
  list.add(Field::weight, "weight", {c.vocab_size, c.hidden_size}, Split::vocab_rows);
  const int layers = static_cast<int>(c.num_hidden_layers);
  for (int layer = 0; layer < layers; ++layer) {
    const auto name = [&](const char* part) {
      return fmt::format("{}.{}.{}", names.layers, layer, part);
    };
    const auto add_layer_norm = [&](Module module, const char* part) {
      if (*part) add_norm(module, layer, name(part));
    };
    add_layer_norm(Module::attention_norm, names.attention_norm);
    begin(Module::attention, layer, name(names.attention));
    names.add_attention(c, list);
    add_layer_norm(Module::attention_end_norm, names.attention_end_norm);
    add_layer_norm(Module::feed_forward_norm, names.feed_forward_norm);
    begin(Module::feed_forward, layer, name(names.feed_forward));
    names.add_feed_forward(c, list);
    add_layer_norm(Module::feed_forward_end_norm, names.feed_forward_end_norm);
  }
  add_norm(Module::final_norm, layers, names.final_norm);
  add_head(c, list);
  if (!traits.learns_positions) return list.take();
  // Not beside the embedding, because the head's copy of a tied embedding comes without it.
  begin(Module::embedding, kPositionsLayer, names.positions);
  list.add(Field::positions, "weight", {c.max_position_embeddings, c.hidden_size});
  return list.take();
}

}  // namespace

std::vector<ParameterInfo> parameters_of(const ModelConfig& config) {
  auto all = all_parameters(config);
  if (config.adapter) add_adapter(*config.adapter, all);
  for (ParameterInfo& info : all)
    if (config.adapter && !is_adapter(info))
      info.update = {.frozen = true, .is_base = true};
    else if (const auto* group = group_of(info.stored.tensor, config.groups))
      info.update = group->update;
  return all;
}

}  // namespace troupe::stages
