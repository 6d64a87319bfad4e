#include <boost/test/unit_test.hpp>

#include "stages/files/hugging_face/hf_config.h"
#include "stages/files/hugging_face/layer_fields.h"
#include "stages/model/computation.h"
#include "tests/support/expect_error.h"
#include "tests/support/hf_files.h"

// The config.json of kinds whose layers are Llama's but for some fields.

BOOST_AUTO_TEST_SUITE(hf_families_test)

using namespace troupe;
using namespace troupe::stages;
using nlohmann::json;
using test::expect_error;
using test::llama_json;

namespace {

constexpr const char* kSliding = "sliding_attention";
constexpr const char* kFull = "full_attention";

struct Fixture {
  test::TempDir dir;

  ModelConfig model_of(const json& config) {
    return read_hf_config(dir.write("config.json", config.dump())).model;
  }
  void refused(const json& config, const std::vector<std::string>& words) {
    std::vector<std::string> all{"config.json"};
    all.insert(all.end(), words.begin(), words.end());
    expect_error(ErrorKind::data, all, [&] { model_of(config); });
  }
  /// A small model of a kind with fields changed or added.
  static json of(const std::string& kind, const json& fields = json::object()) {
    json config = llama_json();
    config["model_type"] = kind;
    config.erase("architectures");
    if (kind == "gemma") config["hidden_act"] = "gelu_pytorch_tanh";
    if (kind == "gemma3_text") config.erase("rope_parameters");
    config["num_hidden_layers"] = 4;
    config.update(fields);
    return config;
  }
  static std::vector<std::int64_t> windows_of(const ModelConfig& model) {
    std::vector<std::int64_t> windows;
    for (std::int64_t layer = 0; layer < model.num_hidden_layers; ++layer)
      windows.push_back(attention_of(model, layer).window);
    return windows;
  }
  using Windows = std::vector<std::int64_t>;
  static json longrope(const json& more = json::object()) {
    json rope = {{"rope_type", "longrope"},      {"rope_theta", 1e4},
                 {"partial_rotary_factor", 0.5}, {"short_factor", {1.0}},
                 {"long_factor", {2.5}},         {"original_max_position_embeddings", 99}};
    rope.update(more);
    return rope;
  }
  /// Models of every kind, with what only it has.
  static std::vector<json> every_kind() {
    return {
        of("llama"),
        of("mistral", {{"sliding_window", 9}}),
        of("qwen2", {{"use_sliding_window", true}, {"max_window_layers", 1}}),
        of("qwen3", {{"attention_bias", true}}),
        of("phi3", {{"rope_parameters", longrope()}, {"sliding_window", 7}}),
        of("phi3"),
        of("smollm3",
           {{"no_rope_layer_interval", 2}, {"use_sliding_window", true}, {"sliding_window", 5}}),
        of("gemma"),
        of("gemma2", {{"layer_types", {kFull, kFull, kSliding, kFull}}}),
        of("gemma3_text", {{"sliding_window_pattern", 2}, {"rope_theta", 3e5}}),
        of("granite", {{"embedding_multiplier", 3.5}, {"residual_multiplier", 0.1}}),
        of("olmo2"),
        of("mixtral", {{"num_local_experts", 4}, {"sliding_window", 9}}),
        of("qwen3_moe", {{"num_experts", 6},
                         {"num_experts_per_tok", 3},
                         {"moe_intermediate_size", 5},
                         {"output_router_logits", true},
                         {"router_aux_loss_coef", 0.25},
                         {"mlp_only_layers", {2}},
                         {"decoder_sparse_step", 2},
                         {"use_sliding_window", true},
                         {"sliding_window", 9}}),
        of("internlm2", {{"bias", false}})};
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(families, Fixture)

BOOST_AUTO_TEST_CASE(a_missing_field_has_the_default_of_its_family) {
  struct Expected {
    const char* kind;
    std::int64_t vocab, hidden, intermediate, layers, heads, kv_heads, head_dim, positions, window;
    double eps, theta;
    bool tied;
  };
  const Expected all[]{
      {"mistral", 32000, 4096, 14336, 32, 32, 8, 128, 131072, 4096, 1e-6, 1e4, false},
      {"qwen2", 151936, 4096, 22016, 32, 32, 32, 128, 32768, 0, 1e-6, 1e4, false},
      {"qwen3", 151936, 4096, 22016, 32, 32, 32, 128, 32768, 0, 1e-6, 1e4, false},
      {"phi3", 32064, 3072, 8192, 32, 32, 32, 96, 4096, 0, 1e-5, 1e4, false},
      {"smollm3", 128256, 2048, 11008, 36, 16, 4, 128, 32768, 0, 1e-6, 2e6, true},
      {"gemma", 256000, 3072, 24576, 28, 16, 16, 256, 8192, 0, 1e-6, 1e4, true},
      {"gemma2", 256000, 2304, 9216, 26, 8, 4, 256, 8192, 4096, 1e-6, 1e4, true},
      {"gemma3_text", 262208, 2304, 9216, 26, 8, 4, 256, 131072, 4096, 1e-6, 1e6, true},
      {"granite", 32000, 4096, 11008, 32, 32, 32, 128, 2048, 0, 1e-6, 1e4, false},
      {"olmo2", 50304, 4096, 11008, 32, 32, 32, 128, 2048, 0, 1e-5, 1e4, false},
      {"mixtral", 32000, 4096, 14336, 32, 32, 8, 128, 131072, 0, 1e-5, 1e6, false},
      {"qwen3_moe", 151936, 2048, 6144, 24, 32, 4, 64, 32768, 0, 1e-6, 1e4, false},
      {"internlm2", 103168, 4096, 11008, 32, 32, 32, 128, 2048, 0, 1e-6, 1e4, false}};
  for (const Expected& e : all) BOOST_TEST_CONTEXT(e.kind) {
      const ModelConfig m = model_of({{"model_type", e.kind}});
      BOOST_TEST(name_of(m.kind) == std::string(e.kind));
      BOOST_TEST(m.vocab_size == e.vocab);
      BOOST_TEST(m.hidden_size == e.hidden);
      BOOST_TEST(m.intermediate_size == e.intermediate);
      BOOST_TEST(m.num_hidden_layers == e.layers);
      BOOST_TEST(m.num_attention_heads == e.heads);
      BOOST_TEST(m.num_key_value_heads == e.kv_heads);
      BOOST_TEST(m.head_dim == e.head_dim);
      BOOST_TEST(m.max_position_embeddings == e.positions);
      BOOST_TEST(m.sliding_window == e.window);
      BOOST_TEST(m.rms_norm_eps == e.eps);
      BOOST_TEST(m.rotary.theta == e.theta);
      BOOST_TEST(m.tie_word_embeddings == e.tied);
    }
  const ModelConfig gemma2 = model_of({{"model_type", "gemma2"}});
  BOOST_TEST(attention_cap(gemma2) == 50);
  BOOST_TEST(logit_cap(gemma2) == 30);
  BOOST_TEST(attention_scale(gemma2) == 1.0 / 16);
  BOOST_TEST(attention_scale(model_of({{"model_type", "granite"}})) == 1);
  // Null is not missing: as many key and value heads as heads, and heads that share the width.
  const json nulls = {{"num_key_value_heads", nullptr}, {"head_dim", nullptr}};
  BOOST_TEST(model_of(of("qwen3", nulls)).head_dim == 4);
  BOOST_TEST(model_of(of("mistral", nulls)).num_key_value_heads == 2);
}

BOOST_AUTO_TEST_CASE(mistral_has_one_window_and_no_biases) {
  BOOST_TEST(windows_of(model_of(of("mistral", {{"sliding_window", 9}}))) == Windows({9, 9, 9, 9}));
  BOOST_TEST(windows_of(model_of(of("mistral", {{"sliding_window", nullptr}}))) ==
             Windows({0, 0, 0, 0}));
  BOOST_TEST(!model_of(of("mistral", {{"attention_bias", true}})).attention_bias);
  for (const json& wrong : {json(0), json(-1), json("all")})
    refused(of("mistral", {{"sliding_window", wrong}}), {"sliding_window"});
}

BOOST_AUTO_TEST_CASE(qwen_has_windows_from_a_layer_on) {
  const json window = {
      {"use_sliding_window", true}, {"sliding_window", 9}, {"max_window_layers", 2}};
  for (const char* kind : {"qwen2", "qwen3"}) {
    json config = of(kind, window);
    BOOST_TEST(windows_of(model_of(config)) == Windows({0, 0, 9, 9}));
    config["layer_types"] = {kSliding, kFull, kFull, kFull};  // wins
    BOOST_TEST(windows_of(model_of(config)) == Windows({9, 0, 0, 0}));
    config["layer_types"] = {kSliding, kFull, kFull};
    refused(config, {"layer_types", "num_hidden_layers = 4"});
    config["layer_types"] = {kSliding, kFull, kFull, "chunked_attention"};
    refused(config, {"layer_types", "chunked_attention"});
    config["layer_types"] = {kSliding, kFull, kFull, kFull};
    config["use_sliding_window"] = false;
    refused(config, {"use_sliding_window"});
    config.erase("layer_types");
    BOOST_TEST(model_of(config).sliding_window == 0);
  }
  BOOST_TEST(!model_of(of("qwen2", {{"attention_bias", true}})).attention_bias);
  BOOST_TEST(model_of(of("qwen3", {{"attention_bias", true}})).attention_bias);
}

BOOST_AUTO_TEST_CASE(phi3_turns_parts_of_heads_and_has_longrope) {
  json config = of("phi3", {{"original_max_position_embeddings", 16}});
  config["rope_parameters"] = longrope();
  const auto check = [&](const json& given) {
    const ModelConfig model = model_of(given);
    BOOST_TEST((model.rotary.type == tensor::RotaryType::longrope));
    BOOST_TEST(model.rotary.dim == 2);
    BOOST_TEST(model.rotary.factor == 4);                             // 64 / 16
    BOOST_TEST(model.rotary.original_max_position_embeddings == 16);  // the one beside
    BOOST_TEST(model.rotary.short_factor == std::vector{1.0});
    BOOST_TEST(model.rotary.long_factor == std::vector{2.5});
  };
  check(config);
  for (const char* type : {"longrope", "su", "yarn"}) {  // as old files say it
    json old = config;
    old.erase("rope_parameters");
    old.update(
        {{"rope_theta", 1e4},
         {"partial_rotary_factor", 0.5},
         {"rope_scaling", {{"type", type}, {"short_factor", {1.0}}, {"long_factor", {2.5}}}}});
    check(old);
  }
  BOOST_TEST(model_of(of("phi3", {{"partial_rotary_factor", 0.5}})).rotary.dim == 2);
  config.erase("original_max_position_embeddings");
  BOOST_TEST(model_of(config).rotary.original_max_position_embeddings == 4096);
  config["rope_parameters"] = longrope({{"long_factor", {2.5, 3.0}}});
  refused(config, {"long_factor", "2 numbers", "needs 1"});
  config["rope_parameters"] = longrope({{"short_factor", nullptr}});
  refused(config, {"short_factor"});
  config["rope_parameters"] = longrope({{"short_factor", {"x"}}});
  refused(config, {"short_factor"});
  config["rope_parameters"] = longrope({{"rope_type", "linear"}, {"factor", 2.0}});
  refused(config, {"rope_type", "longrope"});
  config["rope_parameters"] = longrope({{"partial_rotary_factor", 0.1}});
  refused(config, {"partial_rotary_factor", "4 elements"});
  refused(of("phi3", {{"embd_pdrop", 0.1}}), {"embd_pdrop", "resid_pdrop"});
}

BOOST_AUTO_TEST_CASE(smollm3_does_not_rotate_some_layers) {
  const auto rotated = [&](const json& fields) {
    const ModelConfig model = model_of(of("smollm3", fields));
    std::vector<int> all;
    for (std::int64_t layer = 0; layer < 4; ++layer)
      all.push_back(attention_of(model, layer).rotary.has_value());
    return all;
  };
  using Flags = std::vector<int>;
  BOOST_TEST(rotated(json::object()) == Flags({1, 1, 1, 0}));
  BOOST_TEST(rotated({{"no_rope_layer_interval", 3}}) == Flags({1, 1, 0, 1}));
  BOOST_TEST(rotated({{"no_rope_layers", {0, 1, 1, 0, 0, 1}}}) == Flags({0, 1, 1, 0}));
  const json window = {{"use_sliding_window", true}, {"sliding_window", 9}};
  BOOST_TEST(windows_of(model_of(of("smollm3", window))) == Windows({0, 0, 0, 9}));
  refused(of("smollm3", {{"no_rope_layers", {1, 1}}}), {"no_rope_layers", "num_hidden_layers = 4"});
  refused(of("smollm3", {{"no_rope_layers", {1, 1, 2, 1}}}), {"no_rope_layers"});
  refused(of("smollm3", {{"no_rope_layer_interval", 0}}), {"no_rope_layer_interval"});
}

BOOST_AUTO_TEST_CASE(gemma_scales_embeddings_and_caps) {
  ModelConfig gemma = model_of(of("gemma", {{"hidden_act", "gelu"}}));
  BOOST_TEST(embedding_scale(gemma) == std::sqrt(8.0f));
  gemma.hidden_size = 3072;
  gemma.dtype = tensor::DType::bf16;
  BOOST_TEST(embedding_scale(gemma) == 55.5);
  refused(of("gemma", {{"hidden_act", "silu"}}), {"hidden_act"});
  refused(of("gemma2", {{"hidden_activation", "gelu"}}), {"hidden_activation"});
  refused(of("gemma2", {{"use_bidirectional_attention", true}}), {"use_bidirectional_attention"});
  const json caps = {{"attn_logit_softcapping", nullptr},
                     {"final_logit_softcapping", 4.0},
                     {"query_pre_attn_scalar", 25},
                     {"sliding_window", 9}};
  const ModelConfig gemma2 = model_of(of("gemma2", caps));
  BOOST_TEST(attention_cap(gemma2) == 0);
  BOOST_TEST(logit_cap(gemma2) == 4);
  BOOST_TEST(attention_scale(gemma2) == 0.2);
  BOOST_TEST(windows_of(gemma2) == Windows({9, 0, 9, 0}));
  refused(of("gemma2", {{"final_logit_softcapping", 0.0}}), {"final_logit_softcapping"});
  refused(of("gemma2", {{"sliding_window", nullptr}}), {"sliding_window"});
}

BOOST_AUTO_TEST_CASE(gemma3_rotates_layers_with_a_window_otherwise) {
  const json types = {kSliding, kSliding, kFull, kSliding};
  const json caps = {{"sliding_window", 9}, {"attn_logit_softcapping", 0.5}};
  json now = of("gemma3_text", caps);
  now["layer_types"] = types;
  now["rope_parameters"] = {
      {kFull, {{"rope_type", "linear"}, {"factor", 4.0}, {"rope_theta", 5e5}}},
      {kSliding, {{"rope_type", "default"}, {"rope_theta", 2e4}}}};
  json old = of("gemma3_text", caps);
  old.update({{"sliding_window_pattern", 3},
              {"rope_theta", 5e5},
              {"rope_local_base_freq", 2e4},
              {"rope_scaling", {{"rope_type", "linear"}, {"factor", 4.0}}}});
  BOOST_TEST((model_of(now) == model_of(old)));
  old["rope_scaling"] = {{"type", "linear"}, {"factor", 4.0}};  // not read so by transformers 5
  BOOST_TEST((model_of(old).rotary.type == tensor::RotaryType::standard));
  const ModelConfig model = model_of(now);
  BOOST_TEST(windows_of(model) == Windows({9, 9, 0, 9}));
  BOOST_TEST(attention_cap(model) == 0);  // as transformers, which reads and does not apply it
  const tensor::Rotary local = *attention_of(model, 0).rotary,
                       full = *attention_of(model, 2).rotary;
  BOOST_TEST(local.theta == 2e4);
  BOOST_TEST((local.type == tensor::RotaryType::standard));
  BOOST_TEST(full.theta == 5e5);
  BOOST_TEST(full.factor == 4);
  BOOST_TEST(attentions_of(model).size() == 2u);
  now["rope_parameters"][kSliding]["rope_type"] = "linear";
  now["rope_parameters"][kSliding]["factor"] = 2.0;
  refused(now, {"rope_type"});
  now["rope_parameters"] = {{"rope_theta", 1e4}};
  refused(now, {"rope_parameters", kFull});
  const ModelConfig defaults = model_of(of("gemma3_text"));
  BOOST_TEST(attention_of(defaults, 0).rotary->theta == 1e4);
  BOOST_TEST(windows_of(defaults) == Windows(4, 4096));  // the sixth layer would see all
}

BOOST_AUTO_TEST_CASE(granite_has_multipliers) {
  const ModelConfig model = model_of(of("granite", {{"embedding_multiplier", 12},
                                                    {"attention_multiplier", 0.25},
                                                    {"residual_multiplier", 0.22},
                                                    {"logits_scaling", 8.0},
                                                    {"mlp_bias", true}}));
  BOOST_TEST(embedding_scale(model) == 12);
  BOOST_TEST(attention_scale(model) == 0.25);
  BOOST_TEST(branch_scale(model) == 0.22);
  BOOST_TEST(logit_scale(model) == 0.125);
  BOOST_TEST(model.mlp_bias);
  refused(of("granite", {{"logits_scaling", 0}}), {"logits_scaling"});
}

BOOST_AUTO_TEST_CASE(fields_of_other_families_are_refused) {
  const json others = {{"final_logit_softcapping", 30.0},
                       {"embedding_multiplier", 2.0},
                       {"partial_rotary_factor", 0.5},
                       {"num_experts", 8}};
  for (const char* kind : {"llama", "qwen3", "olmo2"})
    for (const auto& [name, value] : others.items()) refused(of(kind, {{name, value}}), {name});
  refused(of("granite", {{"sliding_window", 9}}), {"sliding_window"});
  refused(of("llama", {{"quantization_config", {{"quant_method", "awq"}}}}),
          {"quantization_config", "awq", "quantized"});
}

BOOST_AUTO_TEST_CASE(what_a_family_that_is_not_there_would_need_is_told) {
  for (const auto& [kind, word] : {std::pair("gpt_oss", "sinks"),
                                   {"gpt_oss", "mxfp4"},
                                   {"cohere", "LayerNorm"},
                                   {"falcon", "alibi"},
                                   {"deepseek_v3", "latent"},
                                   {"mamba", "state"},
                                   {"gemma3", "vision"},
                                   {"qwen2_moe", "shared"}})
    refused(of(kind), {kind, word});
  refused(of("frob"), {"frob", "llama", "gemma3_text"});
}

BOOST_AUTO_TEST_CASE(what_is_written_is_read_back) {
  for (const json& config : every_kind()) BOOST_TEST_CONTEXT(config) {
      const ModelConfig model = model_of(config);
      const json written = json::parse(to_hf_config(model));
      BOOST_TEST((model_of(written) == model), written);
      const std::string text = layer_text_of(model);
      ModelConfig again = model;
      if (model.sliding_window > 0) again.sliding_window = 3;
      again.layer_types = {};
      again.no_rope_layers = {};
      again.rotary.dim = 0;
      again.rotary.short_factor = {};
      again.embedding_multiplier = 1;
      again.experts.dense_layers = {};
      again.experts.sparse_step = 1;
      if (text.empty()) continue;
      read_layer_text(text, again);
      BOOST_TEST((again == model), text);
      BOOST_TEST(layer_text_of(again) == text);
    }
}

BOOST_AUTO_TEST_CASE(the_part_of_a_head_comes_back_exactly) {
  for (std::int64_t width = 4; width <= 256; width += 2)
    for (std::int64_t part = 2; part < width; part += 2) {
      ModelConfig model{.kind = ModelKind::phi3, .head_dim = width};
      model.rotary.dim = part;
      ModelConfig again = model;
      again.rotary.dim = 0;
      read_layer_text(layer_text_of(model), again);
      BOOST_REQUIRE_MESSAGE(again.rotary.dim == part, part << " of " << width);
    }
}

BOOST_AUTO_TEST_CASE(a_text_of_a_manifest_is_checked) {
  const auto read = [](ModelKind kind, const std::string& text) {
    ModelConfig model{.kind = kind};
    read_layer_text(text, model);
    return model;
  };
  BOOST_TEST(read(ModelKind::gemma2, "").sliding_window == 4096);
  BOOST_TEST(read(ModelKind::gemma2, R"({"sliding_window": 9})").sliding_window == 9);
  const auto wrong = [&](ModelKind kind, const std::string& text,
                         const std::vector<std::string>& words) {
    expect_error(ErrorKind::data, words, [&] { read(kind, text); });
  };
  wrong(ModelKind::gemma2, "{", {});
  wrong(ModelKind::gemma2, "[1]", {"model.config", "object"});
  wrong(ModelKind::gemma2, R"({"hidden_size": 9})", {"hidden_size", "gemma2"});
  wrong(ModelKind::llama, R"({"sliding_window": 9})", {"sliding_window", "llama"});
  wrong(ModelKind::gemma2, R"({"sliding_window": "x"})", {"sliding_window"});
  wrong(ModelKind::gemma2, R"({"layer_types": ["full_attention"]})", {"layer_types"});
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE_END()
