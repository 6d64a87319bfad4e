#include "stages/model/model_config.h"

#include <boost/test/unit_test.hpp>
#include <functional>
#include <map>

BOOST_AUTO_TEST_SUITE(model_config_test)

using namespace troupe::stages;

namespace {

ModelConfig small_model() {
  return {.hidden_size = 96,
          .intermediate_size = 224,
          .num_hidden_layers = 6,
          .num_attention_heads = 6,
          .num_key_value_heads = 2,
          .head_dim = 16,
          .vocab_size = 256};
}

ModelConfig small_gpt2() {
  ModelConfig config = small_model();
  config.kind = ModelKind::gpt2;
  config.num_key_value_heads = 6;
  config.max_position_embeddings = 64;
  config.tie_word_embeddings = true;
  return config;
}

/// The message of check_model() for a model with one change.
std::string message(const std::function<void(ModelConfig&)>& change,
                    ModelConfig config = small_model()) {
  change(config);
  return check_model(config).sentence;
}

bool says(const std::string& text, std::initializer_list<const char*> words) {
  for (const char* word : words) {
    if (text.find(word) == std::string::npos) return false;
  }
  return true;
}

}  // namespace

BOOST_AUTO_TEST_CASE(counts_every_parameter_once) {
  ModelConfig config = small_model();
  const std::int64_t layers = 6 * (96 * 96 * 2 + 2 * 96 * 32 + 3 * 96 * 224 + 2 * 96);
  BOOST_TEST(num_parameters(config) == 2 * 256 * 96 + 96 + layers);
  config.tie_word_embeddings = true;
  BOOST_TEST(num_parameters(config) == 256 * 96 + 96 + layers);
}

BOOST_AUTO_TEST_CASE(names_parameters_in_canonical_order) {
  ModelConfig config = small_model();
  config.num_hidden_layers = 2;
  config.num_attention_heads = 4;
  config.head_dim = 40;  // heads * head_dim need not be hidden_size
  const std::vector<std::pair<std::string, troupe::tensor::Shape>> layer = {
      {"input_layernorm", {96}},       {"self_attn.q_proj", {160, 96}},
      {"self_attn.k_proj", {80, 96}},  {"self_attn.v_proj", {80, 96}},
      {"self_attn.o_proj", {96, 160}}, {"post_attention_layernorm", {96}},
      {"mlp.gate_proj", {224, 96}},    {"mlp.up_proj", {224, 96}},
      {"mlp.down_proj", {96, 224}}};
  const auto infos = parameters_of(config);
  BOOST_REQUIRE(infos.size() == 2 * layer.size() + 3);
  std::size_t at = 0;
  const auto expect = [&](const std::string& name, const troupe::tensor::Shape& shape, int number) {
    BOOST_TEST(infos[at].name == name);
    BOOST_TEST((infos[at].shape == shape), name);
    BOOST_TEST(infos[at].layer == number, name);
    ++at;
  };
  expect("model.embed_tokens.weight", {256, 96}, -1);
  for (int i = 0; i < 2; ++i) {
    for (const auto& [name, shape] : layer) {
      expect("model.layers." + std::to_string(i) + "." + name + ".weight", shape, i);
    }
  }
  expect("model.norm.weight", {96}, 2);
  expect("lm_head.weight", {256, 96}, 2);
}

BOOST_AUTO_TEST_CASE(biases_follow_the_weights_of_their_product) {
  ModelConfig config = small_model();
  config.attention_bias = config.mlp_bias = true;
  std::vector<std::string> names;
  for (const ParameterInfo& info : parameters_of(config)) {
    if (info.layer != 3) continue;
    names.push_back(info.name.substr(std::string("model.layers.3.").size()));
    const bool is_bias = names.back().ends_with(".bias");
    BOOST_TEST(info.shape.rank() == (names.back().ends_with("norm.weight") || is_bias ? 1 : 2));
    const bool is_joined = names.back().starts_with("self_attn.k") ||
                           names.back().starts_with("self_attn.v") ||
                           names.back().starts_with("mlp.up");
    BOOST_TEST(info.is_joined == is_joined, names.back());
  }
  const std::vector<std::string> expected = {
      "input_layernorm.weight",  "self_attn.q_proj.weight",
      "self_attn.k_proj.weight", "self_attn.v_proj.weight",
      "self_attn.q_proj.bias",   "self_attn.k_proj.bias",
      "self_attn.v_proj.bias",   "self_attn.o_proj.weight",
      "self_attn.o_proj.bias",   "post_attention_layernorm.weight",
      "mlp.gate_proj.weight",    "mlp.up_proj.weight",
      "mlp.gate_proj.bias",      "mlp.up_proj.bias",
      "mlp.down_proj.weight",    "mlp.down_proj.bias"};
  BOOST_TEST(names == expected, boost::test_tools::per_element());
  const ModelConfig plain = small_model();
  BOOST_TEST(num_parameters(config) - num_parameters(plain) ==
             6 * (96 + 2 * 32 + 96 + 2 * 224 + 96));
}

BOOST_AUTO_TEST_CASE(a_value_head_has_one_row) {
  ModelConfig config = small_model();
  config.value_head = true;
  const auto infos = parameters_of(config);
  BOOST_TEST(infos.back().name == "score.bias");
  BOOST_TEST((infos.back().shape == troupe::tensor::Shape{1}));
  BOOST_TEST(infos[infos.size() - 2].name == "score.weight");
  BOOST_TEST((infos[infos.size() - 2].shape == troupe::tensor::Shape{1, 96}));
  const std::int64_t whole = num_parameters(config);
  BOOST_TEST(whole == num_parameters(small_model()) - 256 * 96 + 97);
  config.value_head_bias = false;
  BOOST_TEST(num_parameters(config) == whole - 1);
}

BOOST_AUTO_TEST_CASE(tied_embeddings_have_no_head_parameter) {
  ModelConfig config = small_model();
  config.tie_word_embeddings = true;
  BOOST_TEST(parameters_of(config).back().name == "model.norm.weight");
}

BOOST_AUTO_TEST_CASE(gpt2_has_hugging_face_s_tensors) {
  ModelConfig config = small_gpt2();
  config.num_hidden_layers = 1;
  // The rows and columns of all tensors of GPT2LMHeadModel, in files.
  const std::map<std::string, std::pair<std::int64_t, std::int64_t>> expected = {
      {"transformer.wte.weight", {256, 96}},
      {"transformer.wpe.weight", {64, 96}},
      {"transformer.h.0.ln_1.weight", {96, 1}},
      {"transformer.h.0.ln_1.bias", {96, 1}},
      {"transformer.h.0.attn.c_attn.weight", {96, 288}},
      {"transformer.h.0.attn.c_attn.bias", {288, 1}},
      {"transformer.h.0.attn.c_proj.weight", {96, 96}},
      {"transformer.h.0.attn.c_proj.bias", {96, 1}},
      {"transformer.h.0.ln_2.weight", {96, 1}},
      {"transformer.h.0.ln_2.bias", {96, 1}},
      {"transformer.h.0.mlp.c_fc.weight", {96, 224}},
      {"transformer.h.0.mlp.c_fc.bias", {224, 1}},
      {"transformer.h.0.mlp.c_proj.weight", {224, 96}},
      {"transformer.h.0.mlp.c_proj.bias", {96, 1}},
      {"transformer.ln_f.weight", {96, 1}},
      {"transformer.ln_f.bias", {96, 1}}};
  std::map<std::string, std::pair<std::int64_t, std::int64_t>> found;
  std::int64_t elements = 0;
  for (const ParameterInfo& info : parameters_of(config)) {
    const std::int64_t rows = info.stored.rows;
    const std::int64_t columns = info.shape.rank() == 2 ? info.shape[1] : 1;
    found[info.stored.tensor] =
        info.stored.transposed ? std::pair(columns, rows) : std::pair(rows, columns);
    elements += info.shape.num_elements();
  }
  BOOST_TEST((found == expected));
  BOOST_TEST(num_parameters(config) == elements);
  const std::int64_t layer = 96 * (288 + 96) + 288 + 96 + 2 * 96 * 224 + 224 + 96 + 4 * 96;
  BOOST_TEST(elements == (256 + 64) * 96 + layer + 2 * 96);
  config.tie_word_embeddings = false;
  BOOST_TEST(num_parameters(config) == elements + 256 * 96);
}

BOOST_AUTO_TEST_CASE(gpt2_s_queries_keys_and_values_divide_one_tensor) {
  std::vector<std::string> names;
  std::int64_t next = 0;
  for (const ParameterInfo& info : parameters_of(small_gpt2())) {
    if (info.stored.tensor != "transformer.h.5.attn.c_attn.weight") continue;
    names.push_back(info.name.substr(info.stored.tensor.rfind('.')));
    BOOST_TEST(info.stored.first_row == next);
    BOOST_TEST(info.is_joined == (next > 0));
    next += info.shape[0];
  }
  BOOST_TEST(names == (std::vector<std::string>{".q.weight", ".k.weight", ".v.weight"}),
             boost::test_tools::per_element());
  BOOST_TEST(next == 3 * 96);
}

BOOST_AUTO_TEST_CASE(checks_what_gpt2_alone_has) {
  const auto wrong = [](const auto& change) { return message(change, small_gpt2()); };
  BOOST_TEST(wrong([](auto&) {}) == "");
  BOOST_TEST(wrong([](auto& c) {
               c.num_attention_heads = c.num_key_value_heads = 32, c.head_dim = 3;
             }) == "");  // odd, but nothing is rotated
  BOOST_TEST(says(wrong([](auto& c) { c.num_key_value_heads = 3; }),
                  {"num_key_value_heads = 3", "num_attention_heads", "nearest: 6"}));
  BOOST_TEST(says(wrong([](auto& c) { c.head_dim = 20; }), {"head_dim = 20", "nearest: 16"}));
  BOOST_TEST(says(wrong([](auto& c) { c.max_position_embeddings = 0; }),
                  {"max_position_embeddings = 0", "between 1 and"}));
  BOOST_TEST(says(wrong([](auto& c) { c.layer_norm_epsilon = 0; }), {"layer_norm_epsilon = 0"}));
}

BOOST_AUTO_TEST_CASE(accepts_what_fits) {
  BOOST_TEST(check_model(ModelConfig{}).sentence == "");
  BOOST_TEST(check_model(small_model()).sentence == "");
  BOOST_TEST(message([](auto& c) { c.head_dim = 40; }) == "");
  BOOST_TEST(message([](auto& c) { c.dtype = troupe::tensor::DType::bf16; }) == "");
}

BOOST_AUTO_TEST_CASE(names_field_rule_and_numbers) {
  BOOST_TEST(says(message([](auto& c) { c.num_attention_heads = 5; }),
                  {"num_attention_heads = 5", "hidden_size = 96", "4 or 6"}));
  BOOST_TEST(says(message([](auto& c) { c.num_key_value_heads = 4; }),
                  {"num_key_value_heads = 4", "num_attention_heads = 6", "3 or 6"}));
  BOOST_TEST(says(message([](auto& c) { c.num_key_value_heads = 12; }),
                  {"num_key_value_heads = 12", "num_attention_heads = 6", "nearest: 6"}));
  BOOST_TEST(says(message([](auto& c) { c.head_dim = 15; }), {"head_dim = 15", "even", "16"}));
  BOOST_TEST(says(message([](auto& c) { c.rms_norm_eps = 0; }), {"rms_norm_eps"}));
  BOOST_TEST(says(message([](auto& c) { c.rotary.theta = 0; }), {"rope_theta"}));
  BOOST_TEST(says(message([](auto& c) { c.rotary.theta = 1.0 / 0.0; }), {"rope_theta"}));
  BOOST_TEST(
      says(message([](auto& c) {
             c.rotary = {.type = troupe::tensor::RotaryType::dynamic,
                         .factor = 2,
                         .original_max_position_embeddings = 32};
           }),
           {"rope_original_max_position_embeddings = 32", "max_position_embeddings = 2048"}));
  BOOST_TEST(says(message([](auto& c) { c.hidden_dropout = 1; }), {"hidden_dropout = 1", "0.1"}));
  BOOST_TEST(says(message([](auto& c) { c.attention_dropout = -1; }), {"attention_dropout = -1"}));
  BOOST_TEST(says(message([](auto& c) { c.initializer_range = -1; }), {"initializer_range"}));
  BOOST_TEST(says(message([](auto& c) { c.dtype = troupe::tensor::DType::i32; }),
                  {"dtype", "int32", "bfloat16"}));
}

BOOST_AUTO_TEST_CASE(refuses_sizes_out_of_range) {
  const std::vector<std::pair<const char*, std::int64_t ModelConfig::*>> sizes = {
      {"hidden_size", &ModelConfig::hidden_size},
      {"intermediate_size", &ModelConfig::intermediate_size},
      {"num_hidden_layers", &ModelConfig::num_hidden_layers},
      {"num_attention_heads", &ModelConfig::num_attention_heads},
      {"num_key_value_heads", &ModelConfig::num_key_value_heads},
      {"head_dim", &ModelConfig::head_dim},
      {"vocab_size", &ModelConfig::vocab_size}};
  for (const auto& [name, field] : sizes) {
    for (const std::int64_t value : {std::int64_t{0}, std::int64_t{-3}, std::int64_t{1} << 40}) {
      ModelConfig config = small_model();
      config.*field = value;
      const auto [at, text] = check_model(config);
      BOOST_TEST(at == &(config.*field), name);
      BOOST_TEST(says(text, {name, std::to_string(value).c_str()}), name << ": " << text);
    }
  }
}

BOOST_AUTO_TEST_CASE(the_largest_model_that_passes_does_not_overflow) {
  const std::int64_t largest = std::int64_t{1} << 20;
  const ModelConfig config = {.hidden_size = largest,
                              .intermediate_size = largest,
                              .num_hidden_layers = 1 << 12,
                              .num_attention_heads = largest / 128,
                              .num_key_value_heads = largest / 128,
                              .head_dim = 128,
                              .vocab_size = 1 << 24};
  BOOST_REQUIRE(check_model(config).sentence == "");
  const double expected =
      2.0 * (1 << 24) * largest + largest + 4096.0 * (7.0 * largest * largest + 2.0 * largest);
  BOOST_TEST(static_cast<double>(num_parameters(config)) == expected,
             boost::test_tools::tolerance(1e-12));
}

BOOST_AUTO_TEST_SUITE_END()
