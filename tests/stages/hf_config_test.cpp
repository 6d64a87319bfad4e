#include "stages/files/hugging_face/hf_config.h"

#include <boost/test/unit_test.hpp>

#include "tests/support/expect_error.h"
#include "tests/support/hf_files.h"

BOOST_AUTO_TEST_SUITE(hf_config_test)

using namespace troupe;
using namespace troupe::stages;
using nlohmann::json;
using tensor::RotaryType;
using test::expect_error;
using test::gpt2_json;
using test::llama_json;

namespace {

struct Fixture {
  test::TempDir dir;

  HfConfig read(const json& config) {
    return read_hf_config(dir.write("config.json", config.dump()));
  }
  ModelConfig model_of(const json& config) { return read(config).model; }
  void refused(const json& config, const std::vector<std::string>& words) {
    std::vector<std::string> all{"config.json"};
    all.insert(all.end(), words.begin(), words.end());
    expect_error(ErrorKind::data, all, [&] { read(config); });
  }
  /// The config with fields changed or added; null removes nothing.
  static json with(json config, const json& fields) {
    config.update(fields);
    return config;
  }
  static json rope(const std::string& type, const json& more) {
    json parameters = {{"rope_theta", 5000.0}, {"rope_type", type}};
    parameters.update(more);
    return with(llama_json(), {{"rope_parameters", parameters}});
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(hf_config, Fixture)

BOOST_AUTO_TEST_CASE(a_llama_of_transformers_5) {
  const ModelConfig model = model_of(llama_json());
  BOOST_TEST((model.kind == ModelKind::llama));
  BOOST_TEST(model.hidden_size == 8);
  BOOST_TEST(model.intermediate_size == 12);
  BOOST_TEST(model.num_hidden_layers == 3);
  BOOST_TEST(model.num_attention_heads == 2);
  BOOST_TEST(model.num_key_value_heads == 1);
  BOOST_TEST(model.head_dim == 4);
  BOOST_TEST(model.vocab_size == 16);
  BOOST_TEST(model.max_position_embeddings == 64);
  BOOST_TEST(model.rms_norm_eps == 1e-5);
  BOOST_TEST(model.initializer_range == 0.08);
  BOOST_TEST((model.rotary.type == RotaryType::standard));
  BOOST_TEST(model.rotary.theta == 10000.0);
  BOOST_TEST(!model.tie_word_embeddings);
  const ModelConfig biased = model_of(with(
      llama_json(), {{"attention_bias", true}, {"mlp_bias", true}, {"attention_dropout", 0.5}}));
  BOOST_TEST(biased.attention_bias);
  BOOST_TEST(biased.mlp_bias);
  BOOST_TEST(biased.attention_dropout == 0.5);
}

BOOST_AUTO_TEST_CASE(missing_fields_have_the_defaults_of_transformers) {
  const ModelConfig llama = model_of({{"model_type", "llama"}});
  BOOST_TEST(llama.hidden_size == 4096);
  BOOST_TEST(llama.intermediate_size == 11008);
  BOOST_TEST(llama.num_hidden_layers == 32);
  BOOST_TEST(llama.num_key_value_heads == 32);
  BOOST_TEST(llama.head_dim == 128);
  BOOST_TEST(llama.vocab_size == 32000);
  BOOST_TEST(llama.max_position_embeddings == 2048);
  BOOST_TEST(llama.rms_norm_eps == 1e-6);
  BOOST_TEST(llama.rotary.theta == 10000.0);
  BOOST_TEST(!llama.tie_word_embeddings);
  const ModelConfig gpt2 = model_of({{"model_type", "gpt2"}});
  BOOST_TEST(gpt2.hidden_size == 768);
  BOOST_TEST(gpt2.intermediate_size == 4 * 768);
  BOOST_TEST(gpt2.num_hidden_layers == 12);
  BOOST_TEST(gpt2.head_dim == 64);
  BOOST_TEST(gpt2.vocab_size == 50257);
  BOOST_TEST(gpt2.max_position_embeddings == 1024);
  BOOST_TEST(gpt2.hidden_dropout == 0.1);
  BOOST_TEST(gpt2.attention_dropout == 0.1);
  BOOST_TEST(gpt2.tie_word_embeddings);
}

BOOST_AUTO_TEST_CASE(gpt2_has_other_names) {
  const ModelConfig model = model_of(gpt2_json());
  BOOST_TEST((model.kind == ModelKind::gpt2));
  BOOST_TEST(model.hidden_size == 8);
  BOOST_TEST(model.intermediate_size == 32);
  BOOST_TEST(model.num_key_value_heads == 2);
  BOOST_TEST(model.max_position_embeddings == 32);
  BOOST_TEST(model.hidden_dropout == 0.2);
  BOOST_TEST(model.attention_dropout == 0.1);
  const ModelConfig common = model_of(with(
      gpt2_json(), {{"hidden_size", 12}, {"num_attention_heads", 3}, {"num_hidden_layers", 5}}));
  BOOST_TEST(common.hidden_size == 12);  // these names count first
  BOOST_TEST(common.num_attention_heads == 3);
  BOOST_TEST(common.num_hidden_layers == 5);
  refused(with(gpt2_json(), {{"embd_pdrop", 0.3}}), {"embd_pdrop", "resid_pdrop"});
}

BOOST_AUTO_TEST_CASE(one_label_is_a_value_head) {
  json config = with(llama_json(), {{"architectures", {"LlamaForTokenClassification"}},
                                    {"tie_word_embeddings", true},
                                    {"id2label", {{"0", "LABEL_0"}}}});
  ModelConfig model = model_of(config);
  BOOST_TEST(model.value_head);
  BOOST_TEST(model.value_head_bias);
  BOOST_TEST(!model.tie_word_embeddings);
  config["token_classification_bias"] = false;
  BOOST_TEST(!model_of(config).value_head_bias);
  config["id2label"]["1"] = "LABEL_1";
  refused(config, {"num_labels", "2 labels"});
  config["num_labels"] = 1;
  BOOST_TEST(model_of(config).value_head);
  config.erase("num_labels");
  config.erase("id2label");
  refused(config, {"num_labels"});
  BOOST_TEST(!model_of(llama_json()).value_head);
}

BOOST_AUTO_TEST_CASE(rope_has_three_spellings) {
  const json llama3 = {{"factor", 8.0},
                       {"low_freq_factor", 1.0},
                       {"high_freq_factor", 4.0},
                       {"original_max_position_embeddings", 16}};
  const auto check = [&](const json& config) {
    const tensor::Rotary rotary = model_of(config).rotary;
    BOOST_TEST((rotary.type == RotaryType::llama3));
    BOOST_TEST(rotary.theta == 5000.0);
    BOOST_TEST(rotary.factor == 8.0);
    BOOST_TEST(rotary.high_freq_factor == 4.0);
    BOOST_TEST(rotary.original_max_position_embeddings == 16);
  };
  check(rope("llama3", llama3));
  for (const char* type : {"type", "rope_type"}) {
    json old = with(llama_json(), {{"rope_theta", 5000.0}, {"rope_scaling", llama3}});
    old["rope_scaling"][type] = "llama3";
    check(old);  // counts before rope_parameters
    old.erase("rope_parameters");
    check(old);
  }
  json plain = with(llama_json(), {{"rope_theta", 5000.0}, {"rope_scaling", nullptr}});
  plain.erase("rope_parameters");
  BOOST_TEST(model_of(plain).rotary.theta == 5000.0);
}

BOOST_AUTO_TEST_CASE(what_rope_leaves_out_follows_from_positions) {
  const tensor::Rotary dynamic = model_of(rope("dynamic", {{"factor", 2.0}})).rotary;
  BOOST_TEST(dynamic.original_max_position_embeddings == 64);
  const tensor::Rotary yarn =
      model_of(rope("yarn", {{"original_max_position_embeddings", 16}, {"truncate", false}}))
          .rotary;
  BOOST_TEST(yarn.factor == 4.0);
  BOOST_TEST(!yarn.truncate);
  BOOST_TEST(yarn.beta_fast == 32.0);
  json beside = rope("yarn", {{"factor", 4.0}, {"original_max_position_embeddings", 16}});
  beside["original_max_position_embeddings"] = 24;  // counts before the one within
  BOOST_TEST(model_of(beside).rotary.original_max_position_embeddings == 24);
  json empty = rope("linear", {{"factor", 2.0}});
  empty["rope_scaling"] = json::object();  // counts as none
  BOOST_TEST(model_of(empty).rotary.factor == 2.0);
  refused(rope("linear", json::object()), {"rope_parameters", "factor", "linear"});
  refused(rope("llama3", {{"factor", 8.0}}), {"low_freq_factor", "llama3"});
  refused(rope("longrope", {{"factor", 2.0}}), {"rope_type", "longrope"});
  refused(rope("frob", json::object()), {"rope_type", "frob"});
  refused(rope("default", {{"partial_rotary_factor", 0.5}}), {"partial_rotary_factor"});
  refused(rope("linear", {{"factor", "two"}}), {"factor", "number"});
  refused(rope("yarn", {{"factor", 4.0}, {"attention_factor", 0}}), {"attention_factor", "null"});
  refused(with(llama_json(), {{"rope_parameters", {{"full_attention", {{"rope_type", "yarn"}}}}}}),
          {"rope_parameters", "layers"});
}

BOOST_AUTO_TEST_CASE(what_would_compute_something_else_is_refused_by_name) {
  const json llama = {{"hidden_act", "gelu"},
                      {"sliding_window", 16},
                      {"partial_rotary_factor", 0.5},
                      {"final_logit_softcapping", 30.0},
                      {"attn_logit_softcapping", 50.0},
                      {"quantization_config", {{"bits", 4}}},
                      {"model_type", "qwen2_moe"},
                      {"architectures", {"LlamaForSequenceClassification"}},
                      {"num_key_value_heads", 3},
                      {"head_dim", 7},
                      {"rms_norm_eps", "small"},
                      {"hidden_size", nullptr},
                      {"vocab_size", -1},
                      {"num_hidden_layers", 1e3},
                      {"is_causal", false},
                      {"mlp_bias", 1}};
  for (const auto& [name, value] : llama.items())
    refused(with(llama_json(), {{name, value}}), {name});
  const json gpt2 = {{"activation_function", "relu"},
                     {"scale_attn_by_inverse_layer_idx", true},
                     {"scale_attn_weights", false},
                     {"add_cross_attention", true}};
  for (const auto& [name, value] : gpt2.items())
    refused(with(gpt2_json(), {{name, value}}), {name});
}

BOOST_AUTO_TEST_CASE(what_changes_nothing_is_kept) {
  const HfConfig config = read(with(llama_json(), {{"sliding_window", nullptr},
                                                   {"partial_rotary_factor", 1.0},
                                                   {"use_sliding_window", false},
                                                   {"bos_token_id", 1},
                                                   {"transformers_version", "4.44.0"},
                                                   {"my_note", "x"}}));
  BOOST_TEST(config.unused == std::vector<std::string>{"my_note"});
}

BOOST_AUTO_TEST_CASE(what_is_written_is_read_back) {
  ModelConfig model = model_of(llama_json());
  const std::vector<json> scalings = {{{"factor", 2.5}, {"type", "linear"}},
                                      {{"factor", 3.0}, {"type", "dynamic"}},
                                      {{"factor", 4.0},
                                       {"type", "yarn"},
                                       {"original_max_position_embeddings", 12},
                                       {"attention_factor", 1.25},
                                       {"beta_slow", 2.0},
                                       {"truncate", false}},
                                      {{"factor", 8.0},
                                       {"type", "llama3"},
                                       {"low_freq_factor", 1.0},
                                       {"high_freq_factor", 4.0},
                                       {"original_max_position_embeddings", 16}}};
  for (const json& more : scalings) {
    model.rotary = model_of(with(llama_json(), {{"rope_scaling", more}})).rotary;
    model.attention_bias = model.mlp_bias = true;
    BOOST_TEST((model_of(json::parse(to_hf_config(model))) == model), more);
  }
  ModelConfig gpt2 = model_of(gpt2_json());
  BOOST_TEST((model_of(json::parse(to_hf_config(gpt2))) == gpt2));
}

BOOST_AUTO_TEST_CASE(training_changes_dtype_and_dropout_alone) {
  json config = with(llama_json(), {{"dtype", "bfloat16"}, {"my_note", "x"}});
  ModelConfig model = model_of(config);
  model.attention_dropout = 0.25;
  json trained = json::parse(trained_hf_config(config.dump(), model));
  config["dtype"] = "float32";
  config["attention_dropout"] = 0.25;
  BOOST_TEST(trained == config);
  json old = llama_json();
  old.erase("dtype");
  old["torch_dtype"] = "float16";
  const json rounded = json::parse(with_dtype(old.dump(), "bfloat16"));
  BOOST_TEST(rounded["torch_dtype"] == "bfloat16");
  BOOST_TEST(!rounded.contains("dtype"));
  model = model_of(gpt2_json());
  model.hidden_dropout = 0;
  trained = json::parse(trained_hf_config(gpt2_json().dump(), model));
  BOOST_TEST(trained["embd_pdrop"] == 0.0);
  BOOST_TEST(trained["resid_pdrop"] == 0.0);
  BOOST_TEST(trained["attn_pdrop"] == 0.1);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE_END()
