#include "stages/model/adapter.h"

#include <boost/test/unit_test.hpp>
#include <string>
#include <vector>

#include "stages/files/safetensors/stored_tensor.h"
#include "stages/model/model_config.h"
#include "stages/model/sharding.h"
#include "tests/support/adapters.h"

// The parameters of adapters: names, order, shapes, and what shards hold of them.

BOOST_AUTO_TEST_SUITE(adapter_test)

using namespace troupe::stages;
using troupe::tensor::Region;
using troupe::tensor::Shape;
using troupe::test::with_adapter;

namespace {

ModelConfig small_of(ModelKind kind) {
  return {.kind = kind,
          .hidden_size = 32,
          .intermediate_size = 48,
          .num_hidden_layers = 2,
          .num_attention_heads = 4,
          .num_key_value_heads = kind == ModelKind::gpt2 ? 4 : 2,
          .head_dim = 8,
          .vocab_size = 50,
          .max_position_embeddings = 16};
}

std::vector<ParameterInfo> adapters_in(const ModelConfig& model, Module module) {
  std::vector<ParameterInfo> found;
  for (const ParameterInfo& info : parameters_of(model))
    if (info.layer == 1 && info.module == module && is_adapter(info)) found.push_back(info);
  return found;
}

void check(const ParameterInfo& info, const std::string& name, const Shape& shape, Field field,
           Split split, int part, bool is_joined) {
  BOOST_TEST_CONTEXT(info.name) {
    BOOST_TEST(info.name == "base_model.model." + name);
    BOOST_TEST((info.shape == shape));
    BOOST_TEST((info.field == field));
    BOOST_TEST((info.split == split));
    BOOST_TEST(info.part == part);
    BOOST_TEST(info.is_joined == is_joined);
    BOOST_TEST(!info.update.frozen);
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(targets_of_a_product_have_all_their_as_before_all_their_bs) {
  const ModelConfig model =
      with_adapter(small_of(ModelKind::llama), 0, {"down_proj", "q_proj", "v_proj"});
  const std::string self = "model.layers.1.self_attn.";
  const auto attention = adapters_in(model, Module::attention);
  BOOST_REQUIRE(attention.size() == 4u);
  check(attention[0], self + "q_proj.lora_A.weight", {3, 32}, Field::lora_a, Split::heads, 0,
        false);
  check(attention[1], self + "v_proj.lora_A.weight", {3, 32}, Field::lora_a, Split::heads, 2, true);
  check(attention[2], self + "q_proj.lora_B.weight", {32, 3}, Field::lora_b, Split::rows, 0, false);
  check(attention[3], self + "v_proj.lora_B.weight", {16, 3}, Field::lora_b, Split::kv_rows, 2,
        true);
  const auto last = adapters_in(model, Module::feed_forward);
  BOOST_REQUIRE(last.size() == 2u);
  check(last[0], "model.layers.1.mlp.down_proj.lora_A.weight", {3, 48}, Field::out_lora_a,
        Split::columns, 0, false);
  check(last[1], "model.layers.1.mlp.down_proj.lora_B.weight", {32, 3}, Field::out_lora_b,
        Split::heads, 0, false);
  // They stand behind the weights of their product.
  const auto all = parameters_of(model);
  const auto q = std::ranges::find(all, attention[0].name, &ParameterInfo::name);
  BOOST_TEST((q - 1)->name == self + "v_proj.weight");
  BOOST_TEST((q + 4)->name == self + "o_proj.weight");
  for (const ParameterInfo& info : all) BOOST_TEST(info.update.frozen == !is_adapter(info));
  BOOST_TEST(num_trained_parameters(model) == 2 * (2 * 3 * 32 + 3 * 48 + 3 * (32 + 16 + 32)));
}

BOOST_AUTO_TEST_CASE(they_stand_behind_biases) {
  ModelConfig model = with_adapter(small_of(ModelKind::llama), 0, {"k_proj"});
  model.attention_bias = true;
  const auto all = parameters_of(model);
  const auto a = std::ranges::find_if(all, is_adapter);
  BOOST_TEST((a - 1)->name == "model.layers.0.self_attn.v_proj.bias");
  BOOST_TEST(a->part == 1);
}

BOOST_AUTO_TEST_CASE(a_fused_tensor_is_one_target) {
  const ModelConfig phi = with_adapter(small_of(ModelKind::phi3), 0, {"qkv_proj"});
  const auto fused = adapters_in(phi, Module::attention);
  const std::string name = "model.layers.1.self_attn.qkv_proj.lora_";
  BOOST_REQUIRE(fused.size() == 4u);
  check(fused[0], name + "A.weight", {3, 32}, Field::lora_a, Split::heads, 0, false);
  check(fused[1], name + "B.q.weight", {32, 3}, Field::lora_b, Split::rows, 0, false);
  check(fused[2], name + "B.k.weight", {16, 3}, Field::lora_b, Split::kv_rows, 1, true);
  check(fused[3], name + "B.v.weight", {16, 3}, Field::lora_b, Split::kv_rows, 2, true);
  BOOST_TEST(fused[3].stored.tensor == "base_model.model." + name + "B.weight");
  BOOST_TEST(fused[3].stored.first_row == 48);
  BOOST_TEST(fused[3].stored.rows == 64);
  const auto tensors = saved_tensors(phi);
  BOOST_REQUIRE(tensors.size() == 4u);  // of two layers
  BOOST_TEST((tensors[1].shape == Shape{64, 3}));
}

BOOST_AUTO_TEST_CASE(the_rows_of_b_lie_in_turns_where_those_of_the_tensor_do) {
  const ModelConfig model = with_adapter(small_of(ModelKind::internlm2), 0, {"wqkv"});
  const auto all = parameters_by_name(model);
  const std::string module = "model.layers.1.attention.wqkv.";
  for (const char* part : {"q", "k", "v"}) {
    const StoredAs& weight = all.at(module + part + ".weight").stored;
    const StoredAs& b = all.at("base_model.model." + module + "lora_B." + part + ".weight").stored;
    BOOST_TEST(b.turn_rows == weight.turn_rows);
    BOOST_TEST(b.turn_stride == weight.turn_stride);
    BOOST_TEST(b.first_row == weight.first_row);
    BOOST_TEST(b.turn_rows > 0);
  }
}

BOOST_AUTO_TEST_CASE(files_hold_those_of_gpt2_as_pytorchs_linears) {
  const ModelConfig model = with_adapter(small_of(ModelKind::gpt2), 0, {"c_attn", "c_proj"});
  std::vector<std::string> names;
  for (const StoredTensor& tensor : saved_tensors(model)) names.push_back(tensor.name);
  const std::string layer = "base_model.model.transformer.h.0.";
  const std::vector<std::string> expected{
      layer + "attn.c_attn.lora_A.weight", layer + "attn.c_attn.lora_B.weight",
      layer + "attn.c_proj.lora_A.weight", layer + "attn.c_proj.lora_B.weight",
      layer + "mlp.c_proj.lora_A.weight",  layer + "mlp.c_proj.lora_B.weight"};
  names.resize(expected.size());
  BOOST_TEST(names == expected, boost::test_tools::per_element());
  BOOST_TEST((saved_tensors(model)[1].shape == Shape{96, 3}));
}

BOOST_AUTO_TEST_CASE(shards_hold_them_as_they_hold_the_target) {
  const ModelConfig model =
      with_adapter(small_of(ModelKind::llama), 0, {"down_proj", "k_proj", "q_proj"});
  const Sharding second{.size = 4, .shard = 1};
  const auto region = [&](const std::string& name) {
    return region_of(parameters_by_name(model).at("base_model.model.model.layers.1." + name), model,
                     second);
  };
  BOOST_TEST((region("self_attn.q_proj.lora_A.weight") == Region{0, 3, 0, 32}));
  BOOST_TEST((region("self_attn.q_proj.lora_B.weight") == Region{8, 8, 0, 3}));
  // Two shards share a head of keys.
  BOOST_TEST((region("self_attn.k_proj.lora_B.weight") == Region{0, 8, 0, 3}));
  BOOST_TEST((region("mlp.down_proj.lora_A.weight") == Region{0, 3, 12, 12}));
  BOOST_TEST((region("mlp.down_proj.lora_B.weight") == Region{0, 32, 0, 3}));
  BOOST_TEST(sums_gradients(model, second));
}

BOOST_AUTO_TEST_CASE(groups_act_on_the_adapter_alone) {
  ModelConfig model = with_adapter(small_of(ModelKind::llama), 0, {"q_proj"});
  model.groups = {{.match = "*.lora_B.*", .update = {.lr_scale = 16}},
                  {.match = "*", .update = {.lr_scale = 2}}};
  for (const ParameterInfo& info : parameters_of(model))
    if (is_adapter(info))
      BOOST_TEST(info.update.lr_scale == (info.field == Field::lora_b ? 16 : 2));
    else
      BOOST_TEST(info.update.frozen);
}

BOOST_AUTO_TEST_CASE(the_scale_is_alpha_by_the_rank_or_its_root) {
  BOOST_TEST((Adapter{.rank = 4, .alpha = 8}.scale()) == 2);
  BOOST_TEST((Adapter{.rank = 4, .alpha = 8, .rslora = true}.scale()) == 4);
}

BOOST_AUTO_TEST_CASE(what_cannot_be_is_refused_with_what_can) {
  const auto sentence = [](const std::vector<std::string>& targets, ModelKind kind) {
    ModelConfig model = small_of(kind);
    if (kind == ModelKind::qwen3_moe) model.experts = {.count = 4, .per_token = 2, .width = 16};
    model.adapter = {.rank = 2, .alpha = 2, .targets = targets};
    return check_adapter(model).sentence;
  };
  const auto has = [](const std::string& text, const std::string& word) {
    BOOST_TEST(text.find(word) != std::string::npos, text);
  };
  BOOST_TEST(sentence({"q_proj"}, ModelKind::llama) == "");
  BOOST_TEST(sentence({"q_proj"}, ModelKind::qwen3_moe) == "");
  has(sentence({"q_proj", "qq_proj"}, ModelKind::llama), "'qq_proj', which no layer has");
  has(sentence({"c_fc"}, ModelKind::llama),
      "the layers have down_proj, gate_proj, k_proj, o_proj, q_proj, up_proj, v_proj");
  has(sentence({"lm_head"}, ModelKind::llama), "'lm_head', which no layer has");
  has(sentence({"up_proj"}, ModelKind::qwen3_moe), "'up_proj', a matrix of each expert");
  has(sentence({}, ModelKind::llama), "must not be empty");
  ModelConfig model = with_adapter(small_of(ModelKind::llama));
  model.adapter->rank = 0;
  has(check_adapter(model).sentence, "rank = 0 must lie between 1 and 48");
  BOOST_TEST((check_adapter(model).field == &model.adapter->rank));
}

BOOST_AUTO_TEST_SUITE_END()
