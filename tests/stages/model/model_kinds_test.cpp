#include "stages/model/model_kinds.h"

#include <fmt/format.h>

#include <boost/test/unit_test.hpp>
#include <map>
#include <string>
#include <vector>

#include "stages/files/safetensors/stored_tensor.h"
#include "stages/model/computation.h"
#include "stages/model/sharding.h"

// What distinguishes the kinds: their parameters, and which attention each layer has.

BOOST_AUTO_TEST_SUITE(model_kinds_test)

using namespace troupe::stages;

namespace {

ModelConfig small_of(ModelKind kind) {
  return {.kind = kind,
          .hidden_size = 96,
          .intermediate_size = 224,
          .num_hidden_layers = 6,
          .num_attention_heads = 6,
          .num_key_value_heads = 2,
          .head_dim = 20,
          .vocab_size = 256};
}

/// The names of one layer's parameters in canonical order, without what all of them begin with, and
/// ".weight" at the end.
std::vector<std::string> layer_of(const ModelConfig& model) {
  const std::string prefix = "model.layers.1.", suffix = ".weight";
  std::vector<std::string> names;
  for (const ParameterInfo& info : parameters_of(model)) {
    if (info.layer != 1) continue;
    BOOST_TEST(info.name.starts_with(prefix));
    std::string name = info.name.substr(prefix.size());
    if (name.ends_with(suffix)) name.resize(name.size() - suffix.size());
    names.push_back(name);
  }
  return names;
}

using Names = std::vector<std::string>;

Names joined(std::initializer_list<Names> parts) {
  Names all;
  for (const Names& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

const Names kQkv{"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"};
const Names kQkvBias{"self_attn.q_proj.bias", "self_attn.k_proj.bias", "self_attn.v_proj.bias"};
const Names kHeadNorms{"self_attn.q_norm", "self_attn.k_norm"};
const Names kOut{"self_attn.o_proj"};
const Names kMlp{"mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"};
const Names kFirst{"input_layernorm"}, kSecond{"post_attention_layernorm"};

std::string shape_of(const ModelConfig& model, const std::string& name) {
  return troupe::tensor::to_string(parameters_by_name(model).at("model.layers.1." + name).shape);
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_layer_has_the_parameters_of_its_kind) {
  const Names llama = joined({kFirst, kQkv, kOut, kSecond, kMlp});
  for (const ModelKind kind : {ModelKind::llama, ModelKind::mistral, ModelKind::smollm3,
                               ModelKind::gemma, ModelKind::granite})
    BOOST_TEST(layer_of(small_of(kind)) == llama, name_of(kind));
  BOOST_TEST(layer_of(small_of(ModelKind::qwen2)) ==
             joined({kFirst, kQkv, kQkvBias, kOut, kSecond, kMlp}));
  BOOST_TEST(layer_of(small_of(ModelKind::qwen3)) ==
             joined({kFirst, kQkv, kHeadNorms, kOut, kSecond, kMlp}));
  const Names around{"pre_feedforward_layernorm"}, last{"post_feedforward_layernorm"};
  BOOST_TEST(layer_of(small_of(ModelKind::gemma2)) ==
             joined({kFirst, kQkv, kOut, kSecond, around, kMlp, last}));
  BOOST_TEST(layer_of(small_of(ModelKind::gemma3_text)) ==
             joined({kFirst, kQkv, kHeadNorms, kOut, kSecond, around, kMlp, last}));
  BOOST_TEST(layer_of(small_of(ModelKind::olmo2)) ==
             joined({kQkv, kHeadNorms, kOut, kSecond, kMlp, last}));
  BOOST_TEST(layer_of(small_of(ModelKind::phi3)) ==
             Names({"input_layernorm", "self_attn.qkv_proj.q", "self_attn.qkv_proj.k",
                    "self_attn.qkv_proj.v", "self_attn.o_proj", "post_attention_layernorm",
                    "mlp.gate_up_proj.gate", "mlp.gate_up_proj.up", "mlp.down_proj"}));
}

BOOST_AUTO_TEST_CASE(biases_that_a_kind_chooses_are_of_the_output_too) {
  ModelConfig qwen3 = small_of(ModelKind::qwen3);
  qwen3.attention_bias = true;
  BOOST_TEST(
      layer_of(qwen3) ==
      joined({kFirst, kQkv, kQkvBias, kHeadNorms, kOut, {"self_attn.o_proj.bias"}, kSecond, kMlp}));
  ModelConfig qwen2 = small_of(ModelKind::qwen2);
  qwen2.attention_bias = true;
  BOOST_TEST(layer_of(qwen2) == joined({kFirst, kQkv, kQkvBias, kOut, kSecond, kMlp}));
}

BOOST_AUTO_TEST_CASE(norms_of_queries_and_keys_are_of_a_head_or_of_all) {
  BOOST_TEST(shape_of(small_of(ModelKind::qwen3), "self_attn.q_norm.weight") == "[20]");
  BOOST_TEST(shape_of(small_of(ModelKind::qwen3), "self_attn.k_norm.weight") == "[20]");
  BOOST_TEST(shape_of(small_of(ModelKind::olmo2), "self_attn.q_norm.weight") == "[120]");
  BOOST_TEST(shape_of(small_of(ModelKind::olmo2), "self_attn.k_norm.weight") == "[40]");
  const ModelConfig olmo2 = small_of(ModelKind::olmo2);
  const auto infos = parameters_by_name(olmo2);
  const auto region = [&](const char* name) {
    return region_of(infos.at(std::string("model.layers.1.self_attn.") + name), olmo2,
                     {.size = 2, .shard = 1});
  };
  BOOST_TEST(region("q_norm.weight").row == 60);
  BOOST_TEST(region("k_norm.weight").row == 20);
  BOOST_TEST(region("k_norm.weight").rows == 20);
}

BOOST_AUTO_TEST_CASE(parameters_of_one_tensor_follow_each_other_in_files) {
  const ModelConfig phi3 = small_of(ModelKind::phi3);
  std::int64_t next = 0;
  for (const ParameterInfo& info : parameters_of(phi3)) {
    if (info.stored.tensor != "model.layers.5.self_attn.qkv_proj.weight") continue;
    BOOST_TEST(info.stored.first_row == next);
    BOOST_TEST(info.stored.rows == (6 + 2 * 2) * 20);
    BOOST_TEST(!info.stored.transposed);
    BOOST_TEST(info.is_joined == (next > 0));
    next += info.shape[0];
  }
  BOOST_TEST(next == 200);
  for (const StoredTensor& tensor : stored_tensors(phi3))
    if (tensor.name == "model.layers.5.mlp.gate_up_proj.weight")
      BOOST_TEST((tensor.shape == troupe::tensor::Shape{448, 96}));
}

BOOST_AUTO_TEST_CASE(internlm2_has_its_queries_keys_and_values_in_turns) {
  const ModelConfig model = small_of(ModelKind::internlm2);
  const std::int64_t width = model.head_dim;
  const std::int64_t groups = model.num_key_value_heads;
  const std::int64_t queries = model.num_attention_heads / groups;
  // Whose row it is, by row of the tensor: 0 to queries - 1 are heads of queries, then key, value.
  std::map<std::int64_t, std::string> rows;
  for (const ParameterInfo& info : parameters_of(model)) {
    if (info.stored.tensor != "model.layers.5.attention.wqkv.weight") continue;
    std::int64_t row = 0;
    for (const auto& piece : stored_regions(info, {0, info.shape[0], 0, info.shape[1]})) {
      BOOST_TEST(piece.columns == model.hidden_size);
      for (std::int64_t i = 0; i < piece.rows; ++i)
        rows[piece.row + i] = fmt::format("{} {}", info.name.at(info.name.size() - 8), row++);
    }
    BOOST_TEST(row == info.shape[0]);
  }
  std::map<std::int64_t, std::string> expected;
  for (std::int64_t group = 0; group < groups; ++group) {
    const auto first = static_cast<std::int64_t>(expected.size());
    for (std::int64_t i = 0; i < queries * width; ++i)
      expected[first + i] = fmt::format("q {}", group * queries * width + i);
    for (std::int64_t i = 0; i < width; ++i) {
      expected[first + queries * width + i] = fmt::format("k {}", group * width + i);
      expected[first + (queries + 1) * width + i] = fmt::format("v {}", group * width + i);
    }
  }
  BOOST_TEST((rows == expected));
}

BOOST_AUTO_TEST_CASE(rows_in_turns_are_found_from_any_row_on) {
  const ModelConfig model = small_of(ModelKind::internlm2);
  for (const ParameterInfo& info : parameters_of(model)) {
    if (info.stored.turn_rows == 0) continue;
    const std::int64_t all = info.shape[0];
    const std::int64_t columns = info.shape.rank() == 2 ? info.shape[1] : 1;
    std::vector<std::int64_t> whole;
    for (const auto& piece : stored_regions(info, {0, all, 0, columns}))
      for (std::int64_t i = 0; i < piece.rows; ++i) whole.push_back(piece.row + i);
    for (std::int64_t first = 0; first < all; first += 7)
      for (std::int64_t end = first; end <= all; end += 13) {
        std::vector<std::int64_t> found;
        for (const auto& piece : stored_regions(info, {first, end - first, 0, columns}))
          for (std::int64_t i = 0; i < piece.rows; ++i) found.push_back(piece.row + i);
        BOOST_REQUIRE((found == std::vector(whole.begin() + first, whole.begin() + end)));
      }
  }
}

BOOST_AUTO_TEST_CASE(layers_differ_in_windows_and_rotation) {
  const auto windows = [](const ModelConfig& model) {
    std::vector<std::int64_t> all;
    for (std::int64_t layer = 0; layer < model.num_hidden_layers; ++layer)
      all.push_back(attention_of(model, layer).window);
    return all;
  };
  using Windows = std::vector<std::int64_t>;
  ModelConfig model = small_of(ModelKind::gemma2);
  model.sliding_window = 9;
  BOOST_TEST(windows(model) == Windows({9, 0, 9, 0, 9, 0}));
  BOOST_TEST(attentions_of(model).size() == 2u);
  model.kind = ModelKind::gemma3_text;
  BOOST_TEST(windows(model) == Windows({9, 9, 9, 9, 9, 0}));
  model.layer_types = std::vector(6, LayerType::full);
  model.layer_types[4] = LayerType::sliding;
  BOOST_TEST(windows(model) == Windows({0, 0, 0, 0, 9, 0}));
  model.local_rotary = troupe::tensor::Rotary{.theta = 77};
  BOOST_TEST(attention_of(model, 4).rotary->theta == 77);
  BOOST_TEST(attention_of(model, 3).rotary->theta == 1e4);
  model.no_rope_layers = {1, 1, 1, 0, 0, 1};
  BOOST_TEST(!attention_of(model, 3).rotary);
  BOOST_TEST(!attention_of(model, 4).rotary);
  BOOST_TEST(attentions_of(model).size() == 3u);
  // A part of the model keeps what each of its layers has.
  const std::vector<int> layers{3, 4};
  const ModelConfig part = with_layers(model, layers);
  BOOST_TEST(windows(part) == Windows({0, 9}));
  BOOST_TEST(part.no_rope_layers == std::vector({0, 0}));
  ModelConfig gemma2 = small_of(ModelKind::gemma2);
  gemma2.sliding_window = 9;
  BOOST_TEST(windows(with_layers(gemma2, layers)) == Windows({0, 9}));
  const ModelConfig llama = small_of(ModelKind::llama);
  BOOST_TEST(attentions_of(llama).size() == 1u);
  BOOST_TEST(with_layers(llama, layers).layer_types.empty());
}

namespace {

ModelConfig mixture_of(ModelKind kind) {
  ModelConfig model = small_of(kind);
  model.experts = {.count = 3, .per_token = 2, .width = 224};
  return model;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_layer_with_experts_has_a_router_and_theirs) {
  const Names attention = joined({kFirst, kQkv, kOut, kSecond});
  const std::string mlp = "block_sparse_moe.experts.";
  BOOST_TEST(
      layer_of(mixture_of(ModelKind::mixtral)) ==
      joined({attention,
              {"block_sparse_moe.gate", mlp + "0.w1", mlp + "0.w3", mlp + "1.w1", mlp + "1.w3",
               mlp + "2.w1", mlp + "2.w3", mlp + "0.w2", mlp + "1.w2", mlp + "2.w2"}}));
  ModelConfig qwen3 = mixture_of(ModelKind::qwen3_moe);
  qwen3.experts.width = 40;
  BOOST_TEST(shape_of(qwen3, "mlp.gate.weight") == "[3, 96]");
  BOOST_TEST(shape_of(qwen3, "mlp.experts.2.up_proj.weight") == "[40, 96]");
  BOOST_TEST(shape_of(qwen3, "mlp.experts.2.down_proj.weight") == "[96, 40]");
  for (const ParameterInfo& info : parameters_of(qwen3)) {
    if (info.expert < 0) continue;
    const bool is_down = info.field == Field::out_weight;
    BOOST_TEST((info.split == (is_down ? Split::columns : Split::rows)));
    const bool is_first = info.expert == 0 && !info.name.ends_with("up_proj.weight");
    BOOST_TEST(info.is_joined == !is_first, info.name);
  }
  BOOST_TEST(num_parameters(qwen3) - num_active_parameters(qwen3) == 6 * 3 * 40 * 96);
}

BOOST_AUTO_TEST_CASE(some_layers_have_no_experts) {
  ModelConfig model = mixture_of(ModelKind::qwen3_moe);
  model.experts.sparse_step = 2;
  model.experts.dense_layers = {3};
  const auto routed = [](const ModelConfig& of) {
    std::vector<int> layers;
    for (int layer = 0; layer < of.num_hidden_layers; ++layer)
      if (is_routed(of, layer)) layers.push_back(layer);
    return layers;
  };
  BOOST_TEST(routed(model) == std::vector({1, 5}));
  BOOST_TEST(num_routed_layers(model) == 2);
  model.experts.dense_layers = {1};
  BOOST_TEST(layer_of(model) == joined({kFirst, kQkv, kHeadNorms, kOut, kSecond, kMlp}));
  // A part of the model keeps what each of its layers has.
  const std::vector<int> layers{5, 1, 3};
  BOOST_TEST(routed(with_layers(model, layers)) == std::vector({0, 2}));
  BOOST_TEST(routed(small_of(ModelKind::llama)).empty());
}

BOOST_AUTO_TEST_CASE(what_experts_cannot_be_is_told) {
  const auto told = [](const auto& change, const char* word) {
    ModelConfig model = mixture_of(ModelKind::mixtral);
    change(model);
    const std::string sentence = check_model(model).sentence;
    BOOST_TEST(sentence.find(word) != std::string::npos, word << ": " << sentence);
  };
  BOOST_TEST(check_model(mixture_of(ModelKind::mixtral)).empty());
  told([](ModelConfig& m) { m.experts.count = 0; }, "num_experts = 0");
  told([](ModelConfig& m) { m.experts.count = 1 << 20; }, "num_experts");
  told([](ModelConfig& m) { m.experts.per_token = 4; }, "num_experts_per_tok = 4");
  told([](ModelConfig& m) { m.experts.width = 40; }, "kind mixtral; nearest: 224");
  told([](ModelConfig& m) { m.experts.normalizes = false; }, "norm_topk_prob");
  told([](ModelConfig& m) { m.experts.dense_layers = {1}; }, "every layer");
  told([](ModelConfig& m) { m.experts.aux_loss_coef = -1; }, "router_aux_loss_coef");
  told([](ModelConfig& m) { m.experts.capacity = -1; }, "expert_capacity");
  told([](ModelConfig& m) { m.kind = ModelKind::llama; }, "mixtral");
  told(
      [](ModelConfig& m) {
        m.kind = ModelKind::qwen3_moe;
        m.experts.dense_layers = {6};
      },
      "mlp_only_layers");
}

BOOST_AUTO_TEST_CASE(what_layers_and_scales_cannot_be_is_told) {
  const auto told = [](const auto& change, const char* word) {
    ModelConfig model = small_of(ModelKind::gemma2);
    change(model);
    const std::string sentence = check_model(model).sentence;
    BOOST_TEST(sentence.find(word) != std::string::npos, word << ": " << sentence);
  };
  BOOST_TEST(check_model(small_of(ModelKind::gemma2)).empty());
  told([](ModelConfig& m) { m.layer_types.resize(5); }, "layer_types");
  told([](ModelConfig& m) { m.no_rope_layers.resize(7); }, "no_rope_layers");
  told([](ModelConfig& m) { m.sliding_window = -1; }, "sliding_window");
  told([](ModelConfig& m) { m.attn_logit_softcapping = -1; }, "attn_logit_softcapping");
  told([](ModelConfig& m) { m.logits_scaling = 0; }, "logits_scaling");
  told([](ModelConfig& m) { m.local_rotary = troupe::tensor::Rotary{.theta = 0}; }, "rope_theta");
  told([](ModelConfig& m) { m.rotary.type = troupe::tensor::RotaryType::longrope; }, "rope_");
}

BOOST_AUTO_TEST_SUITE_END()
