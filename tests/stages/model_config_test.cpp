#include "stages/model_config.h"

#include <boost/test/unit_test.hpp>
#include <functional>

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

/// The message of check_model() for small_model() with one change.
std::string message(const std::function<void(ModelConfig&)>& change) {
  ModelConfig config = small_model();
  change(config);
  return check_model(config);
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

BOOST_AUTO_TEST_CASE(tied_embeddings_have_no_head_parameter) {
  ModelConfig config = small_model();
  config.tie_word_embeddings = true;
  BOOST_TEST(parameters_of(config).back().name == "model.norm.weight");
}

BOOST_AUTO_TEST_CASE(accepts_what_fits) {
  BOOST_TEST(check_model(ModelConfig{}) == "");
  BOOST_TEST(check_model(small_model()) == "");
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
  BOOST_TEST(says(message([](auto& c) { c.rope_theta = 0; }), {"rope_theta"}));
  BOOST_TEST(says(message([](auto& c) { c.rope_theta = 1.0 / 0.0; }), {"rope_theta"}));
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
      const std::string text = check_model(config);
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
  BOOST_REQUIRE(check_model(config) == "");
  const double expected =
      2.0 * (1 << 24) * largest + largest + 4096.0 * (7.0 * largest * largest + 2.0 * largest);
  BOOST_TEST(static_cast<double>(num_parameters(config)) == expected,
             boost::test_tools::tolerance(1e-12));
}
